/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers without company, which go by the lane: lone.c. */
#ifndef ENGINE_PATH_LONE_H
#define ENGINE_PATH_LONE_H

#include "engine/engine.h"

/* peer.lock: at each post, when its path is chosen; sets xfer.by_lane, sends and leads. */
void lone_choose(struct engine_request *request);
/* peer.lock: it ended, or its post failed. */
void lone_over(struct engine_request *request);

/* The answer to that request, before it starts. */
void lone_serve(struct core_push *push, const struct frame *request);
/* It ended, or was not started. */
void lone_served(const struct core_push *push);

#endif
