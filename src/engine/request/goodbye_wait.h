/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that the peer refused because it no longer knows the region. Either the peer
 * deregistered the region, or the peer is about to close: a program that ends deregisters its
 * memory first and sends a goodbye after that. Such a request waits a short time (TCPX_GOODBYE_MS)
 * for the goodbye, whose status explains the failure better. The caller holds link.lock in all
 * calls except goodbye_wait_init() and goodbye_waits_look().
 */
#ifndef ENGINE_REQUEST_GOODBYE_WAIT_H
#define ENGINE_REQUEST_GOODBYE_WAIT_H

#include "engine/link/engine.h"

void goodbye_wait_init(struct engine_peer *peer);
/* Called when the core has ended the request. Returns true if the peer refused the request
 * (ERR_REMOTE_KEY) and the request waits for a goodbye; its memory is then no longer used. Returns
 * false if the caller must end the request. If the peer itself has ended already, a refused request
 * gets the status with which the peer ended. */
bool goodbye_wait_add(struct engine_request *request);
/* Ends a waiting request at once, with the status of its refusal. */
void goodbye_wait_end(struct engine_request *request);
/* Whether there is a waiting request whose post_seq is at most `until`. */
bool goodbye_wait_has(const struct engine_peer *peer, uint64_t until);
/* Called when the peer is dead: ends all waiting requests with `status`. */
void goodbye_waits_fail(struct engine_peer *peer, tcpx_status status);
/* On the control thread: sets the timer that ends the waits, if a request waits. Does nothing if
 * the timer is set already or the peer is dead. */
void goodbye_waits_look(struct engine_peer *peer);

#endif
