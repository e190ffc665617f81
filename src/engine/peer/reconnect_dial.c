/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread's part of dialling a lost peer again: begins the dial, at once or after a
 * pause. */
#include "base/clock.h"
#include "engine/request/reconnect.h"
#include "engine/peer/peer_calls.h"

static void reconnect_begin(struct engine_peer *peer)
{
	if (peer->link.core_ready || peer->died)
		return; /* the peer's own dial became the link, or the peer died */
	peer->reconnect.awaiting = false;
	reconnect_attempted(peer);
	peer_dial_start(peer);
}

static void reconnect_due(struct sys_timer *timer, int64_t now_ns)
{
	(void)now_ns;
	reconnect_begin(LIST_ENTRY(timer, struct engine_peer, dialling.redial_timer));
}

void reconnect_start(struct engine_peer *peer)
{
	int64_t at = peer->reconnect.at_ns;

	if (!at || peer->link.core_ready || peer->died || !peer->reconnect.awaiting)
		return;
	if (at <= clock_now_ns()) {
		reconnect_begin(peer);
		return;
	}
	peer->dialling.redial_timer.fn = reconnect_due;
	sys_timer_set(&engine_runtime.loop, &peer->dialling.redial_timer, at);
}
