/* SPDX-License-Identifier: Apache-2.0 */
/* Solo transfers, which may use the priority channel: lone.c. */
#ifndef ENGINE_PATH_LONE_H
#define ENGINE_PATH_LONE_H

#include "engine/link/engine.h"

/* Called at each post after its path is chosen, with link.lock held: sets by_lane, way.sends and
 * leads of the request. */
void lone_choose(struct engine_request *request);
/* The request ended, or its post failed: gives the turn back. The caller holds link.lock. */
void lone_over(struct engine_request *request);

/* Decides whether the answer to a READ uses the priority channel, before the answer starts. */
void lone_serve(struct core_push *push, const struct frame *request);
/* The answer ended, or was not started: gives the turn back. */
void lone_served(const struct core_push *push);

#endif
