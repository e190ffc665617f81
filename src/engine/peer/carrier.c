/* SPDX-License-Identifier: Apache-2.0 */
/* Gives up connections whose interface lost its carrier, and channels whose data is no longer
 * acknowledged, if the peer has another channel that works. */
#include "engine/peer/carrier.h"

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/peer/path_mtu.h"
#include "engine/peer/rails.h"
#include "sys/addr.h"
#include "sys/iface.h"
#include "sys/sock.h"

/* Whether the peer has a working channel that does not use interface `iface`. A shared-memory
 * channel uses no interface and counts as well. Without such a channel the caller keeps the
 * connections over `iface`: TCP survives a short loss of the carrier, and after a long loss the
 * silence limit ends the peer. */
static bool carrier_other_works(const struct engine_peer *peer, uint32_t iface)
{
	for (uint32_t i = 0; i <= peer->nbulk; i++) {
		struct engine_chan *chan = peer->link.chan[i];

		if (chan && chan->iface != iface && !atomic_load(&chan->failed))
			return true;
	}
	return false;
}

/* Gives up the peer's connections over an interface that lost its carrier, if a channel that does
 * not use the interface works. */
static void carrier_give_up_iface(struct engine_peer *peer, uint32_t iface, const char *name)
{
	uint32_t moved = 0;

	if (peer->died || !peer->counted_up || !carrier_other_works(peer, iface))
		return;
	for (uint32_t i = 0; i <= peer->nbulk; i++) {
		/* no lock, because only the control thread writes chan[] */
		struct engine_chan *chan = peer->link.chan[i];

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
	atomic_fetch_add(&peer->link.session->counters.carrier_losses, moved);
}

/* Whether the last sample of the channel shows unacknowledged data and no acknowledgement since the
 * last send. The peer's kernel acknowledges data even if the peer's process does not read it. */
static bool carrier_unanswered(struct engine_chan *chan)
{
	struct net_chan_info info = {0};

	if (!chan->iface)
		return false; /* same-host transport, or the interface was not found */
	chan_sample_read(chan, &info);
	return info.unacked_bytes && info.last_ack_ms > info.last_send_ms;
}

void carrier_look(struct engine_peer *peer, int64_t now_ns)
{
	int64_t step = now_ns - peer->control.looked_ns;
	bool lives = false;

	if (step > 2 * CLOCK_S_NS)
		step = 0; /* first call, or this process was stopped since the last call */
	peer->control.looked_ns = now_ns;
	for (uint32_t i = 0; i <= peer->nbulk; i++) {
		struct engine_chan *chan = peer->link.chan[i];

		if (!chan || atomic_load(&chan->failed))
			continue;
		/* chan_sample_ask() returns false if the worker has not yet taken a sample that was
		 * requested before, for example because it is inside a call. The state of the
		 * channel is then unknown, and `stuck_ns` does not change. */
		chan->sample.late = chan->iface && !chan_sample_ask(chan);
		if (!chan->sample.late)
			chan->stuck_ns = carrier_unanswered(chan) ? chan->stuck_ns + step : 0;
		lives |= !chan->stuck_ns;
	}
	for (uint32_t i = 0; lives && i <= peer->nbulk; i++) {
		struct engine_chan *chan = peer->link.chan[i];

		if (!chan || chan->stuck_ns < peer->link.session->tuning.silent_ns)
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
				rails_retry_soon(peer);
			} else {
				carrier_give_up_iface(peer, index, name);
			}
		}
	}
}
