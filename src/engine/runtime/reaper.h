/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of stopped channels and dead peers that stay until the peer no longer uses their memory.
 * No event says when that is, so a timer asks each object again and again. Control thread.
 */
#ifndef ENGINE_RUNTIME_REAPER_H
#define ENGINE_RUNTIME_REAPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct engine_runtime;

/* An object's entry in the reaper. */
struct reap_item {
	struct list_node node; /* in runtime.reap, which holds a reference of the object */
	/* True: the peer no longer uses the memory, and the object and the reaper's reference are
	 * released. False: the peer may still use it. */
	bool (*release)(struct reap_item *item, int64_t now_ns);
};

/* From now on release() is called every 5 ms until it returns true. The caller's reference
 * becomes the reaper's. */
void reaper_add(struct reap_item *item, bool (*release)(struct reap_item *item, int64_t now_ns));

void reaper_init(struct engine_runtime *runtime);
/* Called when the runtime stops: forgets the objects that are left; their memory stays
 * allocated. */
void reaper_stop(struct engine_runtime *runtime);

#endif
