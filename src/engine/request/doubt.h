/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A region that the peer does not know any more: did it take the region back, or does it close? A
 * program that ends deregisters its memory first and says goodbye after that. A request that is
 * refused so waits for the goodbye for a short time (TCPX_GOODBYE_MS). peer.lock is held in every
 * call but doubts_look.
 */
#ifndef ENGINE_REQUEST_DOUBT_H
#define ENGINE_REQUEST_DOUBT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "sys/loop.h"
#include <tcpx/types.h>

struct engine_peer;
struct engine_request;

struct peer_doubt {
	struct list_node waiting; /* lock: requests that were refused */
	struct sys_timer timer;	  /* control thread */
};

void doubt_init(struct engine_peer *peer);
/* True: the request, which the core ended, waits; its memory is quiet. */
bool doubt_add(struct engine_request *request);
/* It ends as refused, without any more waiting. */
void doubt_end(struct engine_request *request);
/* One that was posted up to then waits. */
bool doubt_waits(const struct engine_peer *peer, uint64_t until);
/* The peer is dead: all end with that. */
void doubts_fail(struct engine_peer *peer, tcpx_status status);
/* Control thread: the time of those that wait is watched. */
void doubts_look(struct engine_peer *peer);

#endif
