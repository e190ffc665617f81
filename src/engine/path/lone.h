/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers with no other under way, which go by the lane: lone.c. */
#ifndef ENGINE_PATH_LONE_H
#define ENGINE_PATH_LONE_H

#include "engine/link/engine.h"

/* link.lock: at each post, after its path is chosen; sets xfer.by_lane, sends and leads. */
void lone_choose(struct engine_request *request);
/* link.lock: the request ended, or its post failed. */
void lone_over(struct engine_request *request);

/* Whether the answer to a READ goes by the lane; before it starts. */
void lone_serve(struct core_push *push, const struct frame *request);
/* The answer ended, or was not started. */
void lone_served(const struct core_push *push);

#endif
