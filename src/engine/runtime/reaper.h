/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of stopped channels and dead peers that stay until the peer no longer uses their memory.
 * No event says when that is, so one timer asks each of them. Control thread.
 */
#ifndef ENGINE_RUNTIME_REAPER_H
#define ENGINE_RUNTIME_REAPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct engine_runtime;

struct reap_item {
	struct list_node node; /* runtime.reap; a reference of the object belongs to it */
	/* True: the object has ended and may be freed. False: the peer may use its memory. */
	bool (*ended)(struct reap_item *item, int64_t now_ns);
};

/* Calls ended every few milliseconds until it returns true. */
void reaper_add(struct reap_item *item, bool (*ended)(struct reap_item *item, int64_t now_ns));

void reaper_init(struct engine_runtime *runtime);
/* The runtime stops: objects that are left stay allocated, as the close of their session said. */
void reaper_stop(struct engine_runtime *runtime);

#endif
