/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reaper: keeps objects of stopped channels and dead peers until the peer no longer uses their
 * memory. No event says when that is, so a timer checks each object again and again. Control
 * thread.
 */
#ifndef ENGINE_RUNTIME_REAPER_H
#define ENGINE_RUNTIME_REAPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct engine_runtime;

/* An object's entry in the reaper. */
struct reap_item {
	struct list_node node; /* entry in runtime.reap, which holds a reference to the object */
	/* If the peer no longer uses the object's memory: releases the object and the reaper's
	 * reference, and returns true. Returns false if the peer may still use the memory. */
	bool (*release)(struct reap_item *item, int64_t now_ns);
};

/* Calls release() every 5 ms from now on, until it returns true. The reaper takes over the caller's
 * reference. */
void reaper_add(struct reap_item *item, bool (*release)(struct reap_item *item, int64_t now_ns));

void reaper_init(struct engine_runtime *runtime);
/* Called when the runtime stops: forgets the remaining objects, whose memory stays allocated. */
void reaper_stop(struct engine_runtime *runtime);

#endif
