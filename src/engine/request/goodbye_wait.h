/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that the peer refused because it no longer knows the region. Either it deregistered the
 * region, or it is about to close: a program that ends deregisters its memory first and says
 * goodbye after that. Such a request waits a short time (TCPX_GOODBYE_MS) for the goodbye, which
 * would be the better reason. Every call but goodbye_waits_look() needs link.lock.
 */
#ifndef ENGINE_REQUEST_GOODBYE_WAIT_H
#define ENGINE_REQUEST_GOODBYE_WAIT_H

#include "engine/link/engine.h"

void goodbye_wait_init(struct engine_peer *peer);
/* The core has ended the request. True: it waits here; its memory is no longer used. */
bool goodbye_wait_add(struct engine_request *request);
/* Ends the request now, as refused. */
void goodbye_wait_end(struct engine_request *request);
/* Whether a request waits whose post_seq is at most `until`. */
bool goodbye_wait_has(const struct engine_peer *peer, uint64_t until);
/* The peer is dead: all requests that wait end with that status. */
void goodbye_waits_fail(struct engine_peer *peer, tcpx_status status);
/* Control thread: ends the requests whose wait is over, and sets the timer for the others. */
void goodbye_waits_look(struct engine_peer *peer);

#endif
