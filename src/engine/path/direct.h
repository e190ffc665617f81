/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READs and WRITEs without data frames. All memory of the peer that the request names is mapped in
 * this process, so a local GPU copies the bytes and the peer's threads do nothing. The peer can
 * deregister this memory only after the last copy, because this end sends no GONE (share.h) while a
 * copy uses the mapping.
 */
#ifndef ENGINE_PATH_DIRECT_H
#define ENGINE_PATH_DIRECT_H

#include "engine/link/engine.h"

/* The copies of a long list, made when its request is prepared, so that a post only starts them.
 * Valid while this end's GPU finds the peer's regions at the same addresses. */
struct direct_plan {
	size_t size; /* of the whole struct with its arrays, which the session's budget pays for */
	struct mem_piece *pieces; /* for each segment: where its bytes go to */
	uint64_t *sources;	  /* for each segment: the address where they are read */
	uint64_t bases[];	  /* for each key of the request: the address of its region */
};

/* Called when a READ or WRITE of shared GPU memory was prepared, with no lock held. If its GPU will
 * copy the bytes itself, wakes that GPU's thread and, for a long list, makes request->way.plan. */
void direct_prepared(struct engine_request *request);
void direct_plan_free(struct engine_request *request);
/* Called when the path of a READ or WRITE is chosen, with link.lock held and peer->shared not NULL.
 * Returns true if this end can copy the bytes itself. Then request->way.direct holds a stage for
 * the copies, which are not made yet. */
bool direct_begin(struct engine_request *request);
/* Called with link.lock held, after the core has accepted or refused the request. If it was
 * accepted (`status` is OK), lets the copies start when link.lock is released. If it was refused,
 * undoes direct_begin(). Does nothing if way.direct is NULL. */
void direct_posted(struct engine_request *request, tcpx_status status);

#endif
