/* SPDX-License-Identifier: Apache-2.0 */
/* A peer is up when all its channels are up or given up. A timer limits how long that may take. */
#include "base/clock.h"
#include "base/error.h"
#include "ctl/conn.h"
#include "engine/request/reconnect.h"
#include "engine/peer/peer_calls.h"
#include "engine/channel/comms.h"
#include "sys/addr.h"

void peer_check_up(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;
	bool unknown;
	uint32_t up;

	link_lock(&peer->link);
	up = core_link_channels_up(&peer->link.core);
	link_unlock(&peer->link);
	if (peer->counted_up || up + comms_given_up(peer) < peer->nbulk + 1)
		return;
	peer->counted_up = true;
	inbound_is_up(peer);
	peer_close_lost_dial(peer);
	sys_timer_del(&engine_runtime.loop, &peer->dialling.connect_timer);
	atomic_fetch_add(&session->counters.peers_up, 1);
	reconnect_up(peer);
	LOG_INFO("peer '%s' is up: %s, %u channels", peer->who.name, peer->transport, peer->nbulk);
	peer_set_state(peer, TCPX_PEER_UP);
	session_lock(session);
	unknown = peer_hidden(peer);
	session_unlock(session);
	if (unknown)
		return;
	peer_event(peer, TCPX_EVENT_PEER_UP, TCPX_OK, 0);
	if (!peer->dialler)
		session_accepted(session, peer);
}

/* Called when the time for connecting is over: lets the peer come up without late plugin channels,
 * or ends the peer. */
static void peer_connect_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer *peer = LIST_ENTRY(timer, struct engine_peer, dialling.connect_timer);
	char text[SYS_ADDR_TEXT];

	(void)now_ns;
	if (comms_hurry(peer))
		return;
	error_set(TCPX_ERR_TIMED_OUT, 0, "connecting to %s: %s",
		  sys_addr_text(&peer->address.remote, text),
		  peer->control.link ? "its channels did not come up in time"
				     : "no answer in time");
	error_next("%s", peer->control.link ? "look at the peer's log" : CTL_NEXT_NO_ANSWER);
	peer_die_last(peer);
}

void peer_connect_timer(struct engine_peer *peer)
{
	peer->dialling.connect_timer.fn = peer_connect_due;
	sys_timer_set(&engine_runtime.loop, &peer->dialling.connect_timer,
		      peer->dialling.deadline_ns + 20 * CLOCK_MS_NS);
}
