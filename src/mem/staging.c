/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of staging memory: a buddy system over one allocation of the kind, quotas and a waiting
 * queue. */
#include "mem/staging.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "sys/cpu.h"

#define DEVICES_MAX 64
#define ORDERS 11 /* MEM_SLOT_MIN << 10 = MEM_SLOT_MAX */

_Static_assert((MEM_SLOT_MIN << (ORDERS - 1)) == MEM_SLOT_MAX, "orders");

struct mem_staging {
	pthread_mutex_t lock;
	const struct mem_kind *kind;
	uint32_t device;
	uint8_t *base;
	uint64_t bytes, used;
	uint64_t *free[ORDERS]; /* a bit per slot of that order that is free as a whole */
	uint32_t nfree[ORDERS], words[ORDERS];
	struct list_node line, patient; /* mem_stager */
};

static struct {
	pthread_mutex_t lock; /* serialises opening and stopping */
	struct mem_staging *_Atomic pool[MEM_KINDS][DEVICES_MAX][2];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void bit_set(struct mem_staging *pool, unsigned order, uint32_t index)
{
	pool->free[order][index / 64] |= 1ull << (index % 64);
	pool->nfree[order]++;
}

static bool bit_take(struct mem_staging *pool, unsigned order, uint32_t index)
{
	uint64_t *word = &pool->free[order][index / 64], bit = 1ull << (index % 64);

	if (!(*word & bit))
		return false;
	*word &= ~bit;
	pool->nfree[order]--;
	return true;
}

static uint32_t lowest_free(const struct mem_staging *pool, unsigned order)
{
	uint32_t word = 0;

	while (!pool->free[order][word])
		word++;
	return word * 64 + (uint32_t)__builtin_ctzll(pool->free[order][word]);
}

static unsigned order_of(uint64_t bytes)
{
	unsigned order = 0;

	while (((uint64_t)MEM_SLOT_MIN << order) < bytes)
		order++;
	return order;
}

static void staging_pool_free(struct mem_staging *pool)
{
	unsigned order;

	if (!pool)
		return;
	if (pool->base && pool->kind->slot_leave)
		pool->kind->slot_leave(pool->base, pool->bytes, pool->device);
	else if (pool->base)
		pool->kind->slot_free(pool->base, pool->bytes, pool->device);
	for (order = 0; order < ORDERS; order++)
		free(pool->free[order]);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

static tcpx_status staging_pool_new(const struct mem_kind *kind, uint32_t device,
				    struct mem_staging **out_pool)
{
	struct mem_staging *pool = calloc(1, sizeof(*pool));
	uint64_t bytes = config_u64(CONFIG_STAGING_BYTES) / MEM_SLOT_MAX * MEM_SLOT_MAX;
	unsigned order;
	uint32_t i;

	if (!pool)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "staging of %s:%u", kind->name, device);
	sys_mutex_init_short(&pool->lock);
	list_init(&pool->line);
	list_init(&pool->patient);
	pool->kind = kind;
	pool->device = device;
	pool->bytes = bytes;
	for (order = 0; order < ORDERS; order++) {
		pool->words[order] = (uint32_t)(bytes / (MEM_SLOT_MIN << order) + 63) / 64;
		pool->free[order] = calloc(pool->words[order], sizeof(uint64_t));
		if (!pool->free[order]) {
			staging_pool_free(pool);
			return error_set(TCPX_ERR_NO_MEMORY, 0, "staging of %s:%u", kind->name,
					 device);
		}
	}
	pool->base = kind->slot_alloc(bytes, device);
	if (!pool->base) {
		staging_pool_free(pool);
		error_set(TCPX_ERR_NO_MEMORY, 0, "%llu bytes of staging memory for %s:%u",
			  (unsigned long long)bytes, kind->name, device);
		return error_next("lower TCPX_STAGING_BYTES, or raise the limit of locked memory");
	}
	for (i = 0; i < bytes / MEM_SLOT_MAX; i++)
		bit_set(pool, ORDERS - 1, i);
	*out_pool = pool;
	return TCPX_OK;
}

tcpx_status mem_staging_open(const struct mem_kind *kind, uint32_t device)
{
	tcpx_status status = TCPX_OK;
	int direction;

	if (device >= DEVICES_MAX)
		return error_set(TCPX_ERR_LIMIT, 0, "%s:%u: only the first %d devices can be used",
				 kind->name, device, DEVICES_MAX);
	pthread_mutex_lock(&all.lock);
	for (direction = 0; direction < 2 && status == TCPX_OK; direction++) {
		struct mem_staging *pool = atomic_load(&all.pool[kind->kind][device][direction]);

		if (pool)
			continue;
		status = staging_pool_new(kind, device, &pool);
		if (status == TCPX_OK)
			atomic_store(&all.pool[kind->kind][device][direction], pool);
	}
	pthread_mutex_unlock(&all.lock);
	return status;
}

void mem_staging_stop(void)
{
	struct mem_staging *_Atomic *at = &all.pool[0][0][0];
	size_t i;

	pthread_mutex_lock(&all.lock);
	for (i = 0; i < sizeof(all.pool) / sizeof(*at); i++) {
		struct mem_staging *pool = atomic_load(&at[i]);

		if (!pool || mem_staging_used(pool))
			continue;
		atomic_store(&at[i], NULL);
		staging_pool_free(pool);
	}
	pthread_mutex_unlock(&all.lock);
}

void *mem_spill_alloc(size_t bytes)
{
	return aligned_alloc(MEM_SLOT_MIN,
			     (bytes + MEM_SLOT_MIN - 1) & ~(size_t)(MEM_SLOT_MIN - 1));
}

struct mem_staging *mem_staging_get(enum tcpx_mem_kind kind, uint32_t device,
				    enum mem_direction direction)
{
	return device < DEVICES_MAX ? atomic_load(&all.pool[kind][device][direction]) : NULL;
}

void mem_stager_init(struct mem_stager *stager, struct mem_staging *pool)
{
	stager->pool = pool;
	stager->held = stager->want = 0;
	stager->patient = false;
	list_init(&stager->waiting);
}

static void *slot_take_order(struct mem_staging *pool, unsigned order)
{
	unsigned from = order;
	uint32_t index;

	while (from < ORDERS && !pool->nfree[from])
		from++;
	if (from == ORDERS)
		return NULL;
	index = lowest_free(pool, from);
	bit_take(pool, from, index);
	for (; from > order; from--) {
		index *= 2;
		bit_set(pool, from - 1, index + 1);
	}
	pool->used += (uint64_t)MEM_SLOT_MIN << order;
	return pool->base + (uint64_t)index * (MEM_SLOT_MIN << order);
}

static bool within_half(const struct mem_staging *pool, const struct mem_stager *stager,
			uint64_t size)
{
	return stager->held + size <= pool->bytes / 2;
}

/* Whether the client is below its half of the pool and there is a slot. */
static bool could_take(const struct mem_staging *pool, const struct mem_stager *stager,
		       uint64_t size)
{
	unsigned order = order_of(size);

	if (stager && !within_half(pool, stager, size))
		return false;
	while (order < ORDERS && !pool->nfree[order])
		order++;
	return order < ORDERS;
}

/* Queues the client. True: it was not queued before. */
static bool queue_client(struct mem_staging *pool, struct mem_stager *stager, uint64_t size,
			 bool patient)
{
	bool lined = list_empty(&stager->waiting);

	stager->want = size;
	if (lined || stager->patient != patient) {
		list_remove(&stager->waiting);
		list_push_back(patient ? &pool->patient : &pool->line, &stager->waiting);
	}
	stager->patient = patient;
	return lined;
}

/* Whether other clients wait. */
static bool others_wait(const struct mem_staging *pool, const struct mem_stager *stager)
{
	const struct list_node *first = pool->line.next;

	return first != &pool->line && (first != &stager->waiting || first->next != &pool->line);
}

void *mem_staging_take(struct mem_staging *pool, uint64_t bytes, struct mem_stager *stager,
		       bool patient, bool *out_lined)
{
	unsigned order = order_of(bytes);
	uint64_t size = (uint64_t)MEM_SLOT_MIN << order;
	void *slot = NULL;

	if (order >= ORDERS)
		return NULL;
	pthread_mutex_lock(&pool->lock);
	if (could_take(pool, stager, size) && !(patient && others_wait(pool, stager)))
		slot = slot_take_order(pool, order);
	if (slot && stager)
		stager->held += size;
	if (!slot && out_lined)
		*out_lined = queue_client(pool, stager, size, patient);
	pthread_mutex_unlock(&pool->lock);
	return slot;
}

void mem_staging_give(struct mem_staging *pool, void *slot, uint64_t bytes,
		      struct mem_stager *stager)
{
	unsigned order = order_of(bytes);
	uint64_t size = (uint64_t)MEM_SLOT_MIN << order;
	uint32_t index = (uint32_t)((uint64_t)((uint8_t *)slot - pool->base) / size);

	pthread_mutex_lock(&pool->lock);
	pool->used -= size;
	if (stager)
		stager->held -= size;
	while (order < ORDERS - 1 && bit_take(pool, order, index ^ 1)) {
		index /= 2;
		order++;
	}
	bit_set(pool, order, index);
	pthread_mutex_unlock(&pool->lock);
}

/* Clients at their half wait for their own slots and must not block others. */
static struct mem_stager *first_servable(struct mem_staging *pool, struct list_node *line)
{
	struct list_node *pos;

	LIST_FOREACH(pos, line) {
		struct mem_stager *stager = LIST_ENTRY(pos, struct mem_stager, waiting);

		if (could_take(pool, stager, stager->want))
			return stager;
	}
	return NULL;
}

struct mem_stager *mem_staging_offer(struct mem_staging *pool)
{
	struct mem_stager *stager;

	pthread_mutex_lock(&pool->lock);
	stager = first_servable(pool, list_empty(&pool->line) ? &pool->patient : &pool->line);
	if (stager)
		list_remove(&stager->waiting);
	pthread_mutex_unlock(&pool->lock);
	return stager;
}

uint64_t mem_stager_held(struct mem_stager *stager)
{
	uint64_t held;

	pthread_mutex_lock(&stager->pool->lock);
	held = stager->held;
	pthread_mutex_unlock(&stager->pool->lock);
	return held;
}

bool mem_staging_short(struct mem_staging *pool, const struct mem_stager *stager)
{
	struct list_node *pos;
	bool helps = false;

	pthread_mutex_lock(&pool->lock);
	LIST_FOREACH(pos, &pool->line) {
		const struct mem_stager *one = LIST_ENTRY(pos, const struct mem_stager, waiting);

		helps |= one == stager || within_half(pool, one, one->want);
	}
	pthread_mutex_unlock(&pool->lock);
	return helps;
}

uint64_t mem_staging_used(struct mem_staging *pool)
{
	uint64_t used;

	pthread_mutex_lock(&pool->lock);
	used = pool->used;
	pthread_mutex_unlock(&pool->lock);
	return used;
}
