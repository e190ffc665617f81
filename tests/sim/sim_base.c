/* SPDX-License-Identifier: Apache-2.0 */
/* What a schedule stands on: memory that goes all at once, the queue of events, violations. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (1u << 20)

struct block {
	struct block *next;
	size_t bytes, used;
	_Alignas(16) unsigned char data[];
};

static struct block *blocks, *block_at;

static struct block *block_new(size_t bytes)
{
	struct block *block = malloc(sizeof(*block) + bytes);

	if (!block)
		abort();
	*block = (struct block){.bytes = bytes};
	return block;
}

/* Zeroed; lives until the schedule ends. */
void *sim_alloc(size_t bytes)
{
	void *ptr;

	bytes = (bytes + 15) & ~(size_t)15;
	while (!block_at || block_at->bytes - block_at->used < bytes) {
		struct block **link = block_at ? &block_at->next : &blocks;

		if (!*link)
			*link = block_new(bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES);
		else if ((*link)->bytes < bytes) {
			struct block *big = block_new(bytes);

			big->next = *link;
			*link = big;
		}
		block_at = *link;
		block_at->used = 0;
	}
	ptr = block_at->data + block_at->used;
	block_at->used += bytes;
	return memset(ptr, 0, bytes);
}

void sim_arena_reset(void)
{
	block_at = NULL;
}

void sim_arena_free(void)
{
	while (blocks) {
		struct block *block = blocks;

		blocks = block->next;
		free(block);
	}
	block_at = NULL;
}

static bool earlier(const struct sim_event *a, const struct sim_event *b)
{
	return a->when != b->when ? a->when < b->when : a->order < b->order;
}

static void heap_push(struct sim *sim, const struct sim_event *event)
{
	uint32_t i = sim->nheap++;

	if (sim->nheap > sim->cap_heap) {
		sim->cap_heap = sim->cap_heap ? sim->cap_heap * 2 : 256;
		sim->heap = realloc(sim->heap, sim->cap_heap * sizeof(*sim->heap));
		if (!sim->heap)
			abort();
	}
	while (i && earlier(event, &sim->heap[(i - 1) / 2])) {
		sim->heap[i] = sim->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	sim->heap[i] = *event;
}

static struct sim_event heap_pop(struct sim *sim)
{
	struct sim_event first = sim->heap[0], last = sim->heap[--sim->nheap];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < sim->nheap) {
		if (child + 1 < sim->nheap && earlier(&sim->heap[child + 1], &sim->heap[child]))
			child++;
		if (!earlier(&sim->heap[child], &last))
			break;
		sim->heap[i] = sim->heap[child];
		i = child;
	}
	sim->heap[i] = last;
	return first;
}

void sim_at(struct sim *sim, int64_t when, struct sim_side *side,
	    void (*run)(struct sim *, const struct sim_event *), void *ptr, uint64_t a, uint64_t b)
{
	struct sim_event event = {.when = when,
				  .order = ++sim->order,
				  .run = run,
				  .side = side,
				  .ptr = ptr,
				  .a = a,
				  .b = b};

	heap_push(sim, &event);
}

bool sim_step(struct sim *sim)
{
	struct sim_event event;

	if (!sim->nheap)
		return false;
	event = heap_pop(sim);
	sim->now = event.when > sim->now ? event.when : sim->now;
	if (event.side && event.side->stopped_until > sim->now) {
		/* A stopped process does nothing; what came for it waits, in its order. */
		event.when = event.side->stopped_until;
		heap_push(sim, &event);
		return true;
	}
	if (++sim->events > SIM_EVENTS_MAX)
		sim_fail(sim, "the schedule does not end: %llu events",
			 (unsigned long long)sim->events);
	event.run(sim, &event);
	sim_side_check(&sim->side[0]);
	sim_side_check(&sim->side[1]);
	return true;
}

void sim_fail(struct sim *sim, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(sim->why, sizeof(sim->why), format, ap);
	va_end(ap);
	longjmp(sim->out, 1);
}

void sim_trace(struct sim *sim, const char *format, ...)
{
	va_list ap;

	printf("%8lld ", (long long)sim->now);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
}

uint64_t sim_upto(struct sim *sim, uint64_t most)
{
	return rng_below(&sim->rng, most + 1);
}

bool sim_chance(struct sim *sim, uint32_t percent)
{
	return percent && rng_below(&sim->rng, 100) < percent;
}
