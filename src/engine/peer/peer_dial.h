/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of dialling share: control links (peer_dial_control.c) and data channels
 * (peer_dial.c). Control thread. */
#ifndef ENGINE_PEER_PEER_DIAL_H
#define ENGINE_PEER_PEER_DIAL_H

#include "base/error.h"
#include "engine/engine.h"
#include "engine/peer/peer_route.h"

/* A connection that is dialled: in peer->dial, or of a data channel in peer->chan_dial, until it
 * stands, failed or was cancelled. */
struct peer_dial {
	struct ctl_race *race;
	struct engine_peer *peer;
	uint32_t channel, epoch; /* of a data channel */
	unsigned count;
	struct peer_way ways[PEER_WAYS];
	tcpx_status missed[PEER_WAYS];
	tcpx_error refusal; /* of the control link: ours, of an answer */
};

/* NULL: no memory, and the last error says so. */
struct peer_dial *peer_dial_new(struct engine_peer *peer);
/* Starts the race of a dial's ways. It has a copy of them, and theirs with the key is wiped. */
tcpx_status peer_dial_race(struct peer_dial *dial, const struct ctl_race_opts *race,
			   struct ctl_dial_opts ways[PEER_WAYS]);

#endif
