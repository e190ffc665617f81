/* SPDX-License-Identifier: Apache-2.0 */
/* Solo transfers, which may use the priority channel: lone.c. */
#ifndef ENGINE_PATH_LONE_H
#define ENGINE_PATH_LONE_H

#include "engine/link/engine.h"

/* Called at each post after its path is chosen, with link.lock held: sets xfer.by_lane, way.sends
 * and leads of the request. */
void lone_choose(struct engine_request *request);
/* Called when the request has ended or its post failed: gives its turn (lone.c) back, if it has
 * one. The caller holds link.lock. */
void lone_over(struct engine_request *request);

/* Called before the answer to a READ starts: sets push->job.by_lane if the answer uses the
 * priority channel. */
void lone_serve(struct core_push *push, const struct frame *request);
/* Called when the answer to a READ has ended or was not started: gives its turn (lone.c) back, if
 * it has one. */
void lone_served(const struct core_push *push);

#endif
