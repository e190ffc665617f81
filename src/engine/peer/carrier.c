/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces that lose their carrier: what runs over them moves at once, where it can. */
#include "engine/peer/carrier.h"

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/peer/path_mtu.h"
#include "engine/peer/rails.h"
#include "sys/addr.h"
#include "sys/iface.h"
#include "sys/sock.h"

/* Whether a channel lives on another interface. Without one nothing is given up: a short flap is
 * TCP's to repair, a long one the silence limit's to end. */
static bool lives_elsewhere(const struct engine_peer *peer, uint32_t iface)
{
	for (uint32_t i = 0; i <= peer->nbulk; i++) {
		struct engine_chan *chan = peer->link.chan[i];

		if (chan && chan->iface != iface && !atomic_load(&chan->failed))
			return true;
	}
	return false;
}

static void peer_moves(struct engine_peer *peer, uint32_t iface, const char *name)
{
	uint32_t moved = 0;

	if (peer->died || !peer->counted_up || !lives_elsewhere(peer, iface))
		return;
	for (uint32_t i = 0; i <= peer->nbulk; i++) {
		struct engine_chan *chan = peer->link.chan[i]; /* written by this thread only */

		if (!chan || chan->iface != iface || atomic_load(&chan->failed))
			continue;
		chan_fail(chan, TCPX_ERR_UNREACHABLE, ENETDOWN);
		moved++;
	}
	if (peer->control.link && peer->control.iface == iface) {
		peer_control_lost(peer, TCPX_ERR_UNREACHABLE, ENETDOWN);
		moved++;
	}
	if (!moved)
		return;
	LOG_WARN("peer '%s': interface %s lost its carrier: %u connections are given up",
		 peer->who.name, name, moved);
	atomic_fetch_add(&peer->link.session->carrier_losses, moved);
}

/* What was sent last is not answered. A reader that takes nothing answers all the same. */
static bool unanswered(struct engine_chan *chan)
{
	struct net_chan_info info = {0};

	if (!chan->iface)
		return false; /* the same-host transport has no rail */
	chan_sample_read(chan, &info);
	return info.unacked_bytes && info.last_ack_ms > info.last_send_ms;
}

void carrier_look(struct engine_peer *peer, int64_t now_ns)
{
	int64_t step = now_ns - peer->control.looked_ns;
	bool lives = false;

	if (step > 2 * CLOCK_S_NS)
		step = 0; /* the first look, or we slept ourselves */
	peer->control.looked_ns = now_ns;
	for (uint32_t i = 0; i <= peer->nbulk; i++) {
		struct engine_chan *chan = peer->link.chan[i];

		if (!chan || atomic_load(&chan->failed))
			continue;
		/* A worker that owes a sample since the last beat is in a call: nothing is known
		 * of the channel. */
		chan->sample.late = chan->iface && !chan_sample_ask(chan);
		if (!chan->sample.late)
			chan->stuck_ns = unanswered(chan) ? chan->stuck_ns + step : 0;
		lives |= !chan->stuck_ns;
	}
	for (uint32_t i = 0; lives && i <= peer->nbulk; i++) {
		struct engine_chan *chan = peer->link.chan[i];

		if (!chan || chan->stuck_ns < peer->link.session->silent_ns)
			continue;
		if (path_mtu_in_vain(peer, chan))
			return;
		chan_fail(chan, TCPX_ERR_PEER_SILENT, ETIMEDOUT);
	}
}

void carrier_changed(void *arg, unsigned index, const char *name, int up)
{
	struct engine_peer *peer;
	struct list_node *pos;

	(void)arg;
	LIST_FOREACH(pos, &engine_runtime.sessions) {
		struct engine_session *session = LIST_ENTRY(pos, struct engine_session, node);

		for (peer = session_next_peer(session, NULL); peer;
		     peer = session_next_peer(session, peer)) {
			if (up) {
				peer_redial_now(peer);
				rails_now(peer);
			} else {
				peer_moves(peer, index, name);
			}
		}
	}
}
