/* SPDX-License-Identifier: Apache-2.0 */
/* Segment lists of the caller become programs of the core. */
#ifndef ENGINE_LINK_PROGRAM_H
#define ENGINE_LINK_PROGRAM_H

#include "engine/engine.h"

/* Fills request->prog and what stands behind it; on failure nothing is held. */
tcpx_status program_build(struct engine_request *request, enum tcpx_op op,
			  const tcpx_segment *segments, size_t count);
void program_free(struct engine_request *request);

#endif
