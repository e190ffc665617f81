/* SPDX-License-Identifier: Apache-2.0 */
/* Solo transfers, which may use the priority channel: solo.c. */
#ifndef ENGINE_PATH_SOLO_H
#define ENGINE_PATH_SOLO_H

#include "engine/link/engine.h"

/* Called at each post after its path is chosen, with link.lock held: sets xfer.by_prio, way.sends
 * and leads of the request. */
void solo_choose(struct engine_request *request);
/* Called when the request has ended or its post failed: gives its turn (solo.c) back, if it has
 * one. The caller holds link.lock. */
void solo_over(struct engine_request *request);

/* Called before the answer to a READ starts: sets resp->job.by_prio if the answer uses the
 * priority channel. */
void solo_serve(struct core_resp *resp, const struct frame *request);
/* Called when the answer to a READ has ended or was not started: gives its turn (solo.c) back, if
 * it has one. */
void solo_served(const struct core_resp *resp);

#endif
