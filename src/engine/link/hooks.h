/* SPDX-License-Identifier: Apache-2.0 */
/* What cores and links call: the core while the lock of its link is held, the link afterwards. */
#ifndef ENGINE_LINK_HOOKS_H
#define ENGINE_LINK_HOOKS_H

#include "core/link.h"
#include "engine/link/engine_link.h"

extern const struct core_ops engine_core_ops;
extern const struct link_events engine_link_events;

#endif
