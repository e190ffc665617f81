/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the segment list of a request from the segments that the caller gave. */
#ifndef ENGINE_LINK_SEGMENTS_H
#define ENGINE_LINK_SEGMENTS_H

#include "engine/link/engine.h"

/* Fills request->segs, the tables of regions and keys, request->local and request->remote. Takes a
 * reference to each local region. On failure the tables are empty, no reference is held, and the
 * last error says why. */
tcpx_status segments_build(struct engine_request *request, enum tcpx_op op,
			   const tcpx_segment *segments, size_t count);
void segments_free(struct engine_request *request);

#endif
