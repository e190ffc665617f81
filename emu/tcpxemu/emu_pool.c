/* SPDX-License-Identifier: Apache-2.0 */
/* Bounce pools: one a GPU, shared by all comms of the process; pages go out in random order. */
#include "emu.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_pool *pools[EMU_GPUS + 1]; /* the last: of a GPU that is none of the topology */
static enum { IMPORT_NONE, IMPORT_RUNS, IMPORT_MET } imports[EMU_GPUS + 1];
static pthread_cond_t import_met = PTHREAD_COND_INITIALIZER; /* by a second one */

uint64_t emu_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static struct emu_pool *pool_new(int gpu)
{
	struct emu_pool *pool = calloc(1, sizeof(*pool));
	const struct emu_fault *squeeze = emu_fault(EMU_FAULT_POOL, 0, -1);

	if (!pool)
		return NULL;
	pool->pages = (uint32_t)(emu_config.pool_bytes / EMU_PAGE);
	pool->stack = calloc(pool->pages, sizeof(*pool->stack));
	pool->out = calloc(pool->pages, 1);
	if (!pool->stack || !pool->out ||
	    emu_area_get(&pool->area, emu_kind_of_pool(), (size_t)pool->pages * EMU_PAGE, gpu)) {
		free(pool->stack);
		free(pool->out);
		free(pool);
		return NULL;
	}
	if (squeeze && squeeze->nth < pool->pages)
		pool->pages = (uint32_t)squeeze->nth;
	for (uint32_t i = 0; i < pool->pages; i++)
		pool->stack[i] = pool->pages - 1 - i;
	pool->free = pool->pages;
	pool->rng = emu_config.seed + (uint64_t)(gpu + 1);
	pthread_mutex_init(&pool->lock, NULL);
	return pool;
}

static int pool_index(int gpu)
{
	return gpu < 0 || gpu >= EMU_GPUS ? EMU_GPUS : gpu;
}

struct emu_pool *emu_pool_get(int gpu)
{
	int at = pool_index(gpu);

	pthread_mutex_lock(&pools_lock);
	if (!pools[at])
		pools[at] = pool_new(gpu);
	pthread_mutex_unlock(&pools_lock);
	return pools[at];
}

/* Under the lock, which it leaves meanwhile. It takes its time, unless a second one has come. */
static void import(int at, int gpu)
{
	struct emu_pool *pool;
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += emu_config.import_us / 1000000;
	end.tv_nsec += (long)(emu_config.import_us % 1000000) * 1000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	imports[at] = IMPORT_RUNS;
	while (imports[at] == IMPORT_RUNS &&
	       !pthread_cond_timedwait(&import_met, &pools_lock, &end))
		;
	pthread_mutex_unlock(&pools_lock);
	pool = pool_new(gpu);
	if (pool)
		emu_stats_import(at);
	pthread_mutex_lock(&pools_lock);
	pools[at] = pool;
	imports[at] = IMPORT_NONE;
}

/*
 * In the original two calls at once both see no pool and both import it; the second replaces the
 * first, whose mapping goes away under the comm that uses it.
 */
int emu_pool_import(int gpu, struct emu_pool **out)
{
	int at = pool_index(gpu);
	bool second;

	pthread_mutex_lock(&pools_lock);
	second = imports[at] != IMPORT_NONE;
	if (second) {
		imports[at] = IMPORT_MET;
		pthread_cond_broadcast(&import_met);
	} else if (!pools[at]) {
		import(at, gpu);
	}
	*out = pools[at];
	pthread_mutex_unlock(&pools_lock);
	if (second)
		return emu_violation(TCPXEMU_POOL_IMPORT,
				     "GPU %d: a second accept imports its pages", gpu);
	return *out ? EMU_OK : EMU_SYSTEM;
}

uint32_t emu_pool_take(struct emu_pool *pool, uint32_t *pages, uint32_t count,
		       struct emu_waiter *waiter)
{
	uint32_t taken = 0;

	pthread_mutex_lock(&pool->lock);
	for (; taken < count && pool->free; taken++) {
		uint32_t *top = &pool->stack[--pool->free], page = *top;

		if (emu_config.shuffle) {
			uint32_t *other = &pool->stack[emu_random(&pool->rng) % (pool->free + 1)];

			page = *other;
			*other = *top;
		}
		pool->out[page] = 1;
		pages[taken] = page;
	}
	pool->in_use += taken;
	if (pool->in_use > pool->peak)
		pool->peak = pool->in_use;
	if (!taken && !waiter->waiting) {
		waiter->waiting = true;
		waiter->next = pool->waiters;
		pool->waiters = waiter;
	}
	pthread_mutex_unlock(&pool->lock);
	return taken;
}

void emu_pool_give(struct emu_pool *pool, const uint32_t *pages, uint32_t count)
{
	static const uint64_t one = 1;
	uint32_t bad = 0;

	pthread_mutex_lock(&pool->lock);
	for (uint32_t i = 0; i < count; i++) {
		if (pages[i] >= pool->pages || !pool->out[pages[i]]) {
			bad++;
			continue;
		}
		pool->out[pages[i]] = 0;
		pool->stack[pool->free++] = pages[i];
	}
	pool->in_use -= count - bad;
	for (; count && pool->waiters; pool->waiters = pool->waiters->next) {
		pool->waiters->waiting = false;
		if (write(pool->waiters->wake_fd, &one, sizeof(one)) < 0)
			break; /* its counter is full: awake anyhow */
	}
	pthread_mutex_unlock(&pool->lock);
	if (bad)
		emu_violation(TCPXEMU_POOL, "%u pages that were not out", bad);
}

void emu_pool_lose(struct emu_pool *pool, long count)
{
	pthread_mutex_lock(&pool->lock);
	pool->lost = (uint32_t)(pool->lost + count);
	pthread_mutex_unlock(&pool->lock);
}

void emu_pool_forget(struct emu_pool *pool, struct emu_waiter *waiter)
{
	struct emu_waiter **at;

	pthread_mutex_lock(&pool->lock);
	for (at = &pool->waiters; *at && *at != waiter; at = &(*at)->next)
		;
	if (*at)
		*at = waiter->next;
	waiter->waiting = false;
	pthread_mutex_unlock(&pool->lock);
}

void emu_pool_stats(struct tcpxemu_stats *out)
{
	pthread_mutex_lock(&pools_lock);
	for (int i = 0; i <= EMU_GPUS; i++) {
		struct emu_pool *pool = pools[i];

		if (!pool)
			continue;
		pthread_mutex_lock(&pool->lock);
		out->pages_total += pool->pages;
		out->pages_in_use += pool->in_use;
		out->pages_lost += pool->lost;
		out->pages_peak += pool->peak;
		pthread_mutex_unlock(&pool->lock);
	}
	pthread_mutex_unlock(&pools_lock);
}
