/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that the peer refused because it no longer knows the region. Either the peer
 * deregistered the region, or it is about to close: a program that ends deregisters its memory
 * first and says goodbye after that. Such a request waits a short time (TCPX_GOODBYE_MS) for the
 * goodbye, which would be the better reason. Link.lock must be held in all calls except
 * goodbye_waits_look().
 */
#ifndef ENGINE_REQUEST_GOODBYE_WAIT_H
#define ENGINE_REQUEST_GOODBYE_WAIT_H

#include "engine/link/engine.h"

void goodbye_wait_init(struct engine_peer *peer);
/* Called when the core has ended the request. True: the peer refused the request
 * (ERR_REMOTE_KEY), so it waits here for a goodbye, and its memory is no longer used. False: the
 * caller ends the request. If the peer has ended already, the request's status is then the
 * peer's. */
bool goodbye_wait_add(struct engine_request *request);
/* Ends a waiting request at once, as refused. */
void goodbye_wait_end(struct engine_request *request);
/* Whether a request waits that was posted no later than number `until` (post_seq). */
bool goodbye_wait_has(const struct engine_peer *peer, uint64_t until);
/* Called when the peer is dead: all requests that wait end with that status. */
void goodbye_waits_fail(struct engine_peer *peer, tcpx_status status);
/* Control thread: ends the requests whose wait is over, and sets the timer for the others. Does
 * nothing if the timer is set already. */
void goodbye_waits_look(struct engine_peer *peer);

#endif
