/* SPDX-License-Identifier: Apache-2.0 */
/* What is posted while a peer still connects. peer.lock is held in every call. */
#ifndef ENGINE_REQUEST_EARLY_H
#define ENGINE_REQUEST_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include <tcpx/types.h>

struct engine_peer;
struct engine_request;
struct mem_region;

/* Of one peer; its link's lock. */
struct peer_pending {
	struct list_node requests, notes;
	size_t note_bytes;
};

void early_init(struct engine_peer *peer);
/* Is anything waiting? */
bool early_waits(const struct engine_peer *peer);
/* An active request waits from now on. */
void early_add(struct engine_request *request);
/* One that waits ends. */
void early_end(struct engine_request *request, tcpx_status status);
/* A notification waits. ERR_AGAIN: too much does; ERR_LIMIT; ERR_NO_MEMORY. */
tcpx_status early_note(struct engine_peer *peer, const void *data, size_t bytes);
/* With each beat: notifications that the peer had no budget for. */
void early_notes_go(struct engine_peer *peer);
/* The core is there: notifications go, then requests, each in their order. What it does not take
 * ends with its status. */
void early_start(struct engine_peer *peer);
/* The peer is dead. How many notifications are lost. */
uint32_t early_fail(struct engine_peer *peer, tcpx_status status);
void early_say_lost(const struct engine_peer *peer, uint32_t notes); /* no lock held */
/* A region goes. */
void early_forget(struct engine_peer *peer,
		  bool (*uses)(const struct engine_request *request,
			       const struct mem_region *region),
		  const struct mem_region *region);
/* Deadlines. Returns the next one, or 0. */
int64_t early_expire(struct engine_peer *peer, int64_t now_ns);

#endif
