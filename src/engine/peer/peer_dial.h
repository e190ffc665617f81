/* SPDX-License-Identifier: Apache-2.0 */
/* Dials of control links (peer_dial_control.c) and of data channels (peer_dial.c). Control
 * thread. */
#ifndef ENGINE_PEER_PEER_DIAL_H
#define ENGINE_PEER_PEER_DIAL_H

#include "base/error.h"
#include "engine/peer/peer_calls.h"
#include "engine/peer/peer_route.h"

/* A dial in progress. peer->dialling.control or peer->dialling.channel[] points to it until it has
 * succeeded, failed or been cancelled. */
struct peer_dial {
	struct ctl_race *race;
	struct engine_peer *peer;
	uint32_t channel, epoch; /* of the channel; unused for a control connection */
	unsigned count;		 /* number of routes in `routes` */
	struct peer_route routes[PEER_ROUTES];
	/* for a channel: why each route failed; TIMED_OUT if another route was faster; else 0 */
	tcpx_status missed[PEER_ROUTES];
	tcpx_error refusal; /* for a control connection: why this side refused the answer */
};

/* Returns a new dial. Returns NULL and sets the last error if memory is missing. */
struct peer_dial *peer_dial_new(struct engine_peer *peer);
/* Starts to dial the routes of `race`. `routes` is the array race->routes, which contains the key:
 * it is wiped once ctl_race_start() has copied it. */
tcpx_status peer_dial_race(struct peer_dial *dial, const struct ctl_race_opts *race,
			   struct ctl_dial_opts routes[PEER_ROUTES]);

#endif
