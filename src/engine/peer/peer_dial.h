/* SPDX-License-Identifier: Apache-2.0 */
/* Dials of control links (peer_dial_control.c) and of data channels (peer_dial.c). Control
 * thread. */
#ifndef ENGINE_PEER_PEER_DIAL_H
#define ENGINE_PEER_PEER_DIAL_H

#include "base/error.h"
#include "engine/peer/peer_calls.h"
#include "engine/peer/peer_route.h"

/* A dial that is under way. It is in peer->dialling.control or peer->dialling.channel until it is
 * connected, failed or cancelled. */
struct peer_dial {
	struct ctl_race *race;
	struct engine_peer *peer;
	uint32_t channel, epoch; /* of a channel's dial */
	unsigned count;
	struct peer_way ways[PEER_WAYS];
	tcpx_status missed[PEER_WAYS];
	tcpx_error refusal; /* dial of a control connection: why this side refused the answer */
};

/* NULL: no memory, and the last error is set. */
struct peer_dial *peer_dial_new(struct engine_peer *peer);
/* Starts to dial all ways. Copies them; the caller's, which contain the key, are wiped. */
tcpx_status peer_dial_race(struct peer_dial *dial, const struct ctl_race_opts *race,
			   struct ctl_dial_opts ways[PEER_WAYS]);

#endif
