/* SPDX-License-Identifier: Apache-2.0 */
/* Releases objects as soon as a peer no longer uses their memory (reaper.h). */
#include "engine/runtime/reaper.h"

#include "base/clock.h"
#include "engine/runtime/engine_runtime.h"

/* interval between two checks of the objects */
#define REAP_LOOK_NS (5 * CLOCK_MS_NS)

static void reaper_look(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_runtime *runtime = LIST_ENTRY(timer, struct engine_runtime, reap_timer);
	struct list_node kept, *node;

	list_init(&kept);
	while ((node = list_pop_front(&runtime->reap))) {
		struct reap_item *item = LIST_ENTRY(node, struct reap_item, node);

		if (!item->release(item, now_ns))
			list_push_back(&kept, node);
	}
	list_splice(&runtime->reap, &kept);
	if (!list_empty(&runtime->reap))
		sys_timer_set(&runtime->loop, timer, now_ns + REAP_LOOK_NS);
}

void reaper_add(struct reap_item *item, bool (*release)(struct reap_item *item, int64_t now_ns))
{
	struct engine_runtime *runtime = &engine_runtime;
	bool first = list_empty(&runtime->reap);

	item->release = release;
	list_push_back(&runtime->reap, &item->node);
	if (first)
		sys_timer_set(&runtime->loop, &runtime->reap_timer, clock_now_ns() + REAP_LOOK_NS);
}

void reaper_init(struct engine_runtime *runtime)
{
	list_init(&runtime->reap);
	list_init(&runtime->reap_timer.node);
	runtime->reap_timer.fn = reaper_look;
}

void reaper_stop(struct engine_runtime *runtime)
{
	while (list_pop_front(&runtime->reap))
		;
	sys_timer_del(&runtime->loop, &runtime->reap_timer);
}
