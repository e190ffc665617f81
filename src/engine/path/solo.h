/* SPDX-License-Identifier: Apache-2.0 */
/* Solo transfers (see solo.c), which may use the priority channel. */
#ifndef ENGINE_PATH_SOLO_H
#define ENGINE_PATH_SOLO_H

#include "engine/link/engine.h"

/* Decides whether the request is sent as a solo transfer: sets its xfer.by_prio, way.sends and
 * `leads`. Called after path_choose(), with link.lock held. */
void solo_choose(struct engine_request *request);
/* Called when the request has ended or its post has failed. Gives the turn (see solo.c) back if
 * the request has it. The caller holds link.lock. */
void solo_over(struct engine_request *request);

/* Called before the answer to a READ starts. Sets resp->job.by_prio if the answer uses the priority
 * channel. */
void solo_serve(struct core_resp *resp, const struct frame *request);
/* Called when the answer to a READ has ended or was not started. Gives the turn (see solo.c) back
 * if the answer has it. */
void solo_served(const struct core_resp *resp);

#endif
