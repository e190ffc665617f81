/* SPDX-License-Identifier: Apache-2.0 */
/* What the core asks for while the lock of its link is held, and what of it is done afterwards. */
#ifndef ENGINE_LINK_HOOKS_H
#define ENGINE_LINK_HOOKS_H

#include "core/link.h"
#include "engine/link/engine_link.h"

struct engine_peer;

extern const struct core_ops engine_core_ops;
extern const struct link_events engine_link_events;

/* What a post sends itself: nothing, what is for the lane, or the first channel's share, too. */
enum post_sends { POST_NOTHING, POST_LANE, POST_FIRST };
/* As link_run_deferred(), on the thread of a post, which used link_unlock_only(). */
void link_run_posted(struct link *link, enum post_sends sends);

void peer_progress(struct engine_peer *peer); /* something ended: flushes look again */
void peer_wake_control(struct engine_peer *peer);

#endif
