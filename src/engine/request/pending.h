/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and notifications that are posted while the peer still connects. Link.lock must be
 * held in all calls except pending_init(), unless a comment says otherwise. */
#ifndef ENGINE_REQUEST_PENDING_H
#define ENGINE_REQUEST_PENDING_H

#include "engine/link/engine.h"

void pending_init(struct engine_peer *peer);
/* Whether a request or notification waits for the link. */
bool pending_waits(const struct engine_peer *peer);
/* Keeps an active request until the core of the link is started. */
void pending_add(struct engine_request *request);
/* Ends a request that waits for the link, with the given status. */
void pending_end(struct engine_request *request, tcpx_status status);
/* Keeps a copy of a notification. Returns ERR_AGAIN if too many bytes wait already, ERR_LIMIT if
 * the notification is too long, or ERR_NO_MEMORY. */
tcpx_status pending_note(struct engine_peer *peer, const void *data, size_t bytes);
/* Called when the core has been started, and at each heartbeat: gives the waiting notifications to
 * the core in order, until the peer's notification budget or the memory of this side is too small
 * for the next one. Drops a notification that exceeds the peer's whole notification budget;
 * pending_say_too_long() then logs it. Control thread. */
void pending_notes_go(struct engine_peer *peer);
/* Logs a notification that pending_notes_go() dropped. Control thread, which holds no lock. */
void pending_say_too_long(struct engine_peer *peer);
/* Called when the core of the link has been started: calls pending_notes_go(), then hands all
 * requests to the core in the order in which they were posted. A request that the core rejects ends
 * with the core's status. */
void pending_start(struct engine_peer *peer);
/* Called when the peer is dead: ends the requests with `status` and drops the notifications.
 * Returns how many notifications are lost. */
uint32_t pending_fail(struct engine_peer *peer, tcpx_status status);
/* Logs how many notifications were lost. To limit the log, they may be logged later or not at all.
 * The caller holds no lock. */
void pending_say_lost(struct engine_peer *peer, uint32_t notes);
/* Called when a region is deregistered: ends the waiting requests for which uses() returns true. */
void pending_forget(struct engine_peer *peer,
		    bool (*uses)(const struct engine_request *request,
				 const struct mem_region *region),
		    const struct mem_region *region);
/* Ends waiting requests whose deadline has passed. Returns the next deadline, or 0 if there is
 * none. */
int64_t pending_expire(struct engine_peer *peer, int64_t now_ns);

#endif
