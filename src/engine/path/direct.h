/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READs and WRITEs without a frame: all memory of the peer that the request names is mapped here,
 * so a GPU of this end copies the bytes, and the peer's threads have nothing to do. The peer can
 * deregister its memory only after the last copy, because a mapping in use keeps the lease
 * (share.h).
 */
#ifndef ENGINE_PATH_DIRECT_H
#define ENGINE_PATH_DIRECT_H

#include "engine/link/engine.h"

/* Called at the post of a READ or WRITE, with link.lock held and peer->shared not NULL. True:
 * this end can copy the bytes, and request->way.direct is set to the copies, which do not run
 * yet. */
bool direct_begin(struct engine_request *request);
/* Called with link.lock held after the core has accepted the request (OK) or refused it with
 * `status`. OK: the copies start when the lock is free; else undoes direct_begin(). Does nothing
 * if way.direct is NULL. */
void direct_posted(struct engine_request *request, tcpx_status status);

#endif
