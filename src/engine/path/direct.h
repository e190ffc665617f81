/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READs and WRITEs without a frame: all memory of the peer that they name is mapped here, so a GPU
 * of this end copies the bytes, and the peer's threads have nothing to do. The use of a mapping
 * holds the peer's lease (share.h): the peer can deregister the memory only after the last copy.
 */
#ifndef ENGINE_PATH_DIRECT_H
#define ENGINE_PATH_DIRECT_H

#include "engine/link/engine.h"

/* During the post of a READ or WRITE: sets request->way.direct if it can go this way. link.lock */
bool direct_begin(struct engine_request *request);
/* The core has taken the request, or refused it with status: starts the copies when the lock is
 * free, or undoes direct_begin(). link.lock */
void direct_posted(struct engine_request *request, tcpx_status status);

#endif
