/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of stopped channels and dead peers that stay until the peer no longer uses their memory.
 * No event says when that is, so one timer polls each object. Control thread.
 */
#ifndef ENGINE_RUNTIME_REAPER_H
#define ENGINE_RUNTIME_REAPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct engine_runtime;

struct reap_item {
	struct list_node node; /* in runtime.reap, which holds a reference of the object */
	/* Releases the object, and the reference that the reaper holds, if nobody uses it any more,
	 * and then returns true. False: the peer may still use its memory. */
	bool (*release)(struct reap_item *item, int64_t now_ns);
};

/* Calls release() every few milliseconds until it returns true. */
void reaper_add(struct reap_item *item, bool (*release)(struct reap_item *item, int64_t now_ns));

void reaper_init(struct engine_runtime *runtime);
/* The runtime stops: forgets the objects that are left, which stay allocated. */
void reaper_stop(struct engine_runtime *runtime);

#endif
