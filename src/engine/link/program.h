/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the segment list of a request from the segments that the caller gave. */
#ifndef ENGINE_LINK_PROGRAM_H
#define ENGINE_LINK_PROGRAM_H

#include "engine/link/engine.h"

/* Fills request->prog, its regions and keys. On failure no reference is left. */
tcpx_status program_build(struct engine_request *request, enum tcpx_op op,
			  const tcpx_segment *segments, size_t count);
void program_free(struct engine_request *request);

#endif
