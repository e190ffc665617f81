/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READs and WRITEs without a frame: all memory of the peer that the request names is mapped here,
 * so a GPU of this end copies the bytes, and the peer's threads have nothing to do. While a mapping
 * is in use the lease lasts (share.h): the peer can deregister the memory only after the last copy.
 */
#ifndef ENGINE_PATH_DIRECT_H
#define ENGINE_PATH_DIRECT_H

#include "engine/link/engine.h"

/* Called at the post of a READ or WRITE, with link.lock held: sets request->way.direct if this end
 * can copy the bytes. */
bool direct_begin(struct engine_request *request);
/* Called with link.lock held when the core has taken the request, or refused it with status: has
 * the copies started when the lock is free, or undoes direct_begin(). */
void direct_posted(struct engine_request *request, tcpx_status status);

#endif
