/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and notifications that are posted while the peer still connects. Every call needs
 * link.lock unless it says otherwise. */
#ifndef ENGINE_REQUEST_PENDING_H
#define ENGINE_REQUEST_PENDING_H

#include "engine/link/engine.h"

void pending_init(struct engine_peer *peer);
/* Whether anything waits. */
bool pending_waits(const struct engine_peer *peer);
/* An active request waits until the link is there. */
void pending_add(struct engine_request *request);
/* Ends a request that waits. */
void pending_end(struct engine_request *request, tcpx_status status);
/* Keeps a copy of a notification. ERR_AGAIN: too many bytes wait; ERR_LIMIT; ERR_NO_MEMORY. */
tcpx_status pending_note(struct engine_peer *peer, const void *data, size_t bytes);
/* Each beat: sends the notifications that the peer had no budget for. */
void pending_notes_go(struct engine_peer *peer);
/* The core is there: hands it the notifications, then the requests, each in their order. A request
 * that it does not take ends with its status. */
void pending_start(struct engine_peer *peer);
/* The peer is dead. Returns how many notifications are lost. */
uint32_t pending_fail(struct engine_peer *peer, tcpx_status status);
/* Logs that. No lock held. */
void pending_say_lost(struct engine_peer *peer, uint32_t notes);
/* A region is deregistered: requests that use it end. */
void pending_forget(struct engine_peer *peer,
		    bool (*uses)(const struct engine_request *request,
				 const struct mem_region *region),
		    const struct mem_region *region);
/* Ends requests whose deadline is over. Returns the next deadline, or 0. */
int64_t pending_expire(struct engine_peer *peer, int64_t now_ns);

#endif
