/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of staging memory. A pool is a buddy system over several parts, each of which is one
 * allocation of the memory kind. A pool limits what one client may hold, and queues clients that
 * wait. Pinning memory takes long (about 0.3 ms per MiB), so a pool opens with one small part, and
 * a thread adds the others.
 */
#include "mem/staging.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "sys/cpu.h"

#define DEVICES_MAX 64
#define ORDERS 11		/* number of slot sizes, from MEM_SLOT_MIN to MEM_SLOT_MIN << 10 */
#define PAUSES_MAX 10		/* most pauses of mem_staging_quiet_ns before a part is added */
#define PART_BYTES MEM_SLOT_MAX /* bytes of a part, which is one of the largest slots */

_Static_assert((MEM_SLOT_MIN << (ORDERS - 1)) == MEM_SLOT_MAX, "orders");

/* A part of a pool: one allocation of the kind. */
struct part {
	uint8_t *addr;
	uint64_t at; /* offset of the part's first byte in the pool */
};

struct mem_staging {
	pthread_mutex_t lock;
	const struct mem_kind *kind;
	uint32_t device;
	struct part *parts;   /* sorted by offset */
	struct part *by_addr; /* the same parts, sorted by address */
	uint32_t nparts;      /* number of allocated parts */
	/* bytes of all parts when the pool is complete; bytes of slots in use */
	uint64_t bytes, used;
	/* per order, a bit per slot: set if the slot is free and not a part of a larger free
	 * slot */
	uint64_t *free[ORDERS];
	/* per order: number of free slots; length of `free` in words */
	uint32_t nfree[ORDERS], words[ORDERS];
	/* queues of waiting clients (mem_stager): `patient` has the patient ones, `line` the
	 * others */
	struct list_node line, patient;
	struct list_node growing; /* element of all.growing */
	bool grows;		  /* whether the thread will add parts; guarded by all.grow_lock */
};

static struct {
	pthread_mutex_t lock; /* serialises opening and stopping */
	struct mem_staging *_Atomic pool[MEM_KINDS][DEVICES_MAX][2];
	pthread_once_t once;
	int fork_err; /* errno of the registration of the fork handler; 0 if it is registered */

	/* For the thread that adds parts to pools. This thread never takes all.lock, under which it
	 * is joined. */
	pthread_mutex_t grow_lock;
	/* pools that lack parts, which the thread serves in turn; guarded by grow_lock */
	struct list_node growing;
	/* whether the thread has work or runs; whether it must end; guarded by grow_lock */
	bool grows, stop;
	_Atomic int64_t opened_ns; /* time of the last mem_staging_open, thus registration */
	pthread_t thread;	   /* guarded by `lock` */
	bool joinable;		   /* whether `thread` must be joined; guarded by `lock` */
} all = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.once = PTHREAD_ONCE_INIT,
	.grow_lock = PTHREAD_MUTEX_INITIALIZER,
};

void (*_Atomic mem_staging_grown)(struct mem_staging *pool);
_Atomic int64_t mem_staging_quiet_ns = 2 * CLOCK_MS_NS;

/* Called in a forked child: forgets all pools, because the child has neither the thread nor the
 * memory. */
static void staging_forked(void)
{
	pthread_mutex_init(&all.lock, NULL);
	pthread_mutex_init(&all.grow_lock, NULL);
	memset(all.pool, 0, sizeof(all.pool));
	list_init(&all.growing);
	all.grows = all.stop = all.joinable = false;
}

static void staging_first(void)
{
	list_init(&all.growing);
	all.fork_err = pthread_atfork(NULL, NULL, staging_forked);
}

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

/* Returns the index of the free slot of this order with the lowest offset. There must be one. */
static uint32_t lowest_free(const struct mem_staging *pool, unsigned order)
{
	uint32_t word = 0;

	while (!pool->free[order][word])
		word++;
	return word * 64 + (uint32_t)__builtin_ctzll(pool->free[order][word]);
}

/* Returns the order of the smallest slot that holds `bytes` bytes. A result of ORDERS or more means
 * that no slot does. */
static unsigned order_of(uint64_t bytes)
{
	unsigned order = 0;

	while (((uint64_t)MEM_SLOT_MIN << order) < bytes)
		order++;
	return order;
}

static void part_free(const struct mem_staging *pool, uint8_t *addr)
{
	if (pool->kind->slot_leave)
		pool->kind->slot_leave(addr, PART_BYTES, pool->device);
	else
		pool->kind->slot_free(addr, PART_BYTES, pool->device);
}

static void staging_pool_free(struct mem_staging *pool)
{
	if (!pool)
		return;
	for (uint32_t i = 0; i < pool->nparts; i++)
		part_free(pool, pool->parts[i].addr);
	for (unsigned order = 0; order < ORDERS; order++)
		free(pool->free[order]);
	free(pool->parts);
	free(pool->by_addr);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/* Whether the pool has all its parts. */
static bool pool_whole(const struct mem_staging *pool)
{
	return (uint64_t)pool->nparts * PART_BYTES >= pool->bytes;
}

static int part_compare(const void *a, const void *b)
{
	const struct part *one = a, *two = b;

	return one->addr < two->addr ? -1 : one->addr > two->addr;
}

/* Allocates the next part, and adds its memory to the free slots. Returns the error of slot_alloc
 * on failure. Slow. */
static tcpx_status pool_grow(struct mem_staging *pool)
{
	uint8_t *addr = pool->kind->slot_alloc(PART_BYTES, pool->device);
	struct part part = {addr, (uint64_t)pool->nparts * PART_BYTES};

	if (!addr)
		return error_last()->status;
	pthread_mutex_lock(&pool->lock);
	pool->parts[pool->nparts] = pool->by_addr[pool->nparts] = part;
	pool->nparts++;
	qsort(pool->by_addr, pool->nparts, sizeof(part), part_compare);
	bit_set(pool, ORDERS - 1, (uint32_t)(part.at / MEM_SLOT_MAX));
	pthread_mutex_unlock(&pool->lock);
	return TCPX_OK;
}

/* Allocates the tables of a pool for all its parts. Returns false if there is no memory;
 * staging_pool_free then frees what was allocated. */
static bool pool_tables(struct mem_staging *pool)
{
	uint64_t parts = pool->bytes / PART_BYTES;

	pool->parts = calloc(parts, sizeof(*pool->parts));
	pool->by_addr = calloc(parts, sizeof(*pool->by_addr));
	for (unsigned order = 0; order < ORDERS; order++) {
		pool->words[order] =
			(uint32_t)(pool->bytes / ((uint64_t)MEM_SLOT_MIN << order) + 63) / 64;
		pool->free[order] = calloc(pool->words[order], sizeof(uint64_t));
		if (!pool->free[order])
			return false;
	}
	return pool->parts && pool->by_addr;
}

/* Makes a pool with its first part. Returns ERR_NO_MEMORY on failure. */
static tcpx_status staging_pool_new(const struct mem_kind *kind, uint32_t device,
				    struct mem_staging **out_pool)
{
	struct mem_staging *pool = calloc(1, sizeof(*pool));
	uint64_t bytes = config_u64(CONFIG_STAGING_BYTES) / PART_BYTES * PART_BYTES;

	if (!pool)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "staging of %s:%u", kind->name, device);
	sys_mutex_init_short(&pool->lock);
	list_init(&pool->line);
	list_init(&pool->patient);
	list_init(&pool->growing);
	pool->kind = kind;
	pool->device = device;
	pool->bytes = bytes;
	if (!pool_tables(pool)) {
		staging_pool_free(pool);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "staging of %s:%u", kind->name, device);
	}
	if (pool_grow(pool) != TCPX_OK) {
		staging_pool_free(pool);
		error_set(TCPX_ERR_NO_MEMORY, 0, "%u bytes of staging memory for %s:%u", PART_BYTES,
			  kind->name, device);
		return error_next("raise the limit of locked memory");
	}
	*out_pool = pool;
	return TCPX_OK;
}

/* Adds the next part and calls mem_staging_grown. If the part cannot be allocated, lowers
 * pool->bytes to what the pool has, so that the pool does not grow again. */
static void pool_grow_once(struct mem_staging *pool)
{
	void (*grown)(struct mem_staging *) = atomic_load(&mem_staging_grown);

	if (pool_grow(pool) != TCPX_OK) {
		LOG_WARN("staging memory of %s:%u stays at %llu of %llu bytes: %s; lower "
			 "TCPX_STAGING_BYTES, or raise the limit of locked memory",
			 pool->kind->name, pool->device,
			 (unsigned long long)pool->nparts * PART_BYTES,
			 (unsigned long long)pool->bytes, error_last()->what);
		pthread_mutex_lock(&pool->lock);
		pool->bytes = (uint64_t)pool->nparts * PART_BYTES;
		pthread_mutex_unlock(&pool->lock);
	} else if (grown) {
		grown(pool);
	}
}

static bool grow_stops(void)
{
	bool stop;

	pthread_mutex_lock(&all.grow_lock);
	stop = all.stop;
	pthread_mutex_unlock(&all.grow_lock);
	return stop;
}

/* Waits until no memory has been registered for a while, but not for ever. Pinning a part holds a
 * lock of the driver for about 1 ms, for which the checks of a registration would wait. */
static void grow_pause(void)
{
	for (int i = 0; i < PAUSES_MAX && !grow_stops(); i++) {
		int64_t ns = atomic_load(&all.opened_ns) + atomic_load(&mem_staging_quiet_ns) -
			     clock_now_ns();
		struct timespec pause = {ns / CLOCK_S_NS, ns % CLOCK_S_NS};

		if (ns <= 0)
			return;
		nanosleep(&pause, NULL);
	}
}

/* The thread that adds parts to all pools in turn, one part at a time. Ends when no pool lacks a
 * part, or when it is asked to. */
static void *grow_main(void *arg)
{
	(void)arg;
	for (;;) {
		struct list_node *node;
		struct mem_staging *pool;

		grow_pause();
		pthread_mutex_lock(&all.grow_lock);
		node = all.stop ? NULL : list_pop_front(&all.growing);
		all.grows = node != NULL;
		pthread_mutex_unlock(&all.grow_lock);
		if (!node)
			return NULL;
		pool = LIST_ENTRY(node, struct mem_staging, growing);
		pool_grow_once(pool);
		pthread_mutex_lock(&all.grow_lock);
		pool->grows = !pool_whole(pool);
		if (pool->grows)
			list_push_back(&all.growing, node);
		pthread_mutex_unlock(&all.grow_lock);
	}
}

/* Joins the thread, if there is one. The thread ends because no pool lacks parts or because it was
 * asked to. Called under all.lock. */
static void grow_join(void)
{
	if (all.joinable)
		pthread_join(all.thread, NULL);
	all.joinable = false;
}

/* Ends the thread. Pools that lack parts keep the parts that they have. Called under all.lock. */
static void grow_stop(void)
{
	struct list_node *node;

	pthread_mutex_lock(&all.grow_lock);
	all.stop = true;
	pthread_mutex_unlock(&all.grow_lock);
	grow_join();
	while ((node = list_pop_front(&all.growing)))
		LIST_ENTRY(node, struct mem_staging, growing)->grows = false;
	all.stop = all.grows = false;
}

/* Lets the thread add the parts that the pool lacks. Starts the thread if it does not run. Called
 * under all.lock. */
static tcpx_status grow_start(struct mem_staging *pool)
{
	tcpx_status status = TCPX_OK;
	bool start = false;

	pthread_mutex_lock(&all.grow_lock);
	if (!pool->grows && !pool_whole(pool)) {
		pool->grows = true;
		list_push_back(&all.growing, &pool->growing);
		start = !all.grows;
		all.grows = true;
	}
	pthread_mutex_unlock(&all.grow_lock);
	if (!start)
		return TCPX_OK;
	grow_join();
	status = sys_thread_start(&all.thread, "tcpx-pin", grow_main, NULL);
	all.joinable = status == TCPX_OK;
	if (status != TCPX_OK)
		grow_stop();
	return status;
}

tcpx_status mem_staging_open(const struct mem_kind *kind, uint32_t device)
{
	struct mem_staging *_Atomic *pools, *pool;
	tcpx_status status = TCPX_OK;
	int direction;

	if (device >= DEVICES_MAX)
		return error_set(TCPX_ERR_LIMIT, 0, "%s:%u: only the first %d devices can be used",
				 kind->name, device, DEVICES_MAX);
	pthread_once(&all.once, staging_first);
	if (all.fork_err)
		return error_set(TCPX_ERR_NO_MEMORY, all.fork_err, "fork handler of staging");
	pools = all.pool[kind->kind][device];
	pthread_mutex_lock(&all.lock);
	for (direction = 0; direction < 2 && status == TCPX_OK; direction++) {
		if (atomic_load(&pools[direction]))
			continue;
		status = staging_pool_new(kind, device, &pool);
		if (status == TCPX_OK)
			atomic_store(&pools[direction], pool);
	}
	/* Both pools have got their first part before the thread adds parts to either, because the
	 * driver makes allocations wait for each other. */
	atomic_store(&all.opened_ns, clock_now_ns());
	for (direction = 0; direction < 2 && status == TCPX_OK; direction++)
		status = grow_start(atomic_load(&pools[direction]));
	pthread_mutex_unlock(&all.lock);
	return status;
}

void mem_staging_stop(void)
{
	struct mem_staging *_Atomic *at = &all.pool[0][0][0];
	size_t i;

	pthread_mutex_lock(&all.lock);
	if (all.joinable)
		grow_stop();
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

void mem_staging_rouse(const struct mem_staging *pool)
{
	if (pool->kind->rouse)
		pool->kind->rouse(pool->device, MEM_CALL_FILL);
}

void mem_stager_init(struct mem_stager *stager, struct mem_staging *pool)
{
	stager->pool = pool;
	stager->held = stager->want = 0;
	stager->patient = false;
	list_init(&stager->waiting);
}

/* Returns the address of the slot at an offset in the pool. */
static uint8_t *slot_at_offset(const struct mem_staging *pool, uint64_t offset)
{
	return pool->parts[offset / PART_BYTES].addr + offset % PART_BYTES;
}

/* Returns the offset of a slot in the pool. */
static uint64_t slot_offset(const struct mem_staging *pool, const uint8_t *slot)
{
	uint32_t low = 0, high = pool->nparts;

	while (high - low > 1) { /* finds the last part whose address is not above slot */
		uint32_t mid = (low + high) / 2;

		if (pool->by_addr[mid].addr <= slot)
			low = mid;
		else
			high = mid;
	}
	return pool->by_addr[low].at + (uint64_t)(slot - pool->by_addr[low].addr);
}

/* Takes the free slot of this order with the lowest offset; divides a larger slot if no slot of
 * this order is free. Returns NULL if no larger one is free either. Called under the lock. */
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
	return slot_at_offset(pool, (uint64_t)index * ((uint64_t)MEM_SLOT_MIN << order));
}

/* Whether the client would hold at most half of the pool with one more slot of this size. In a pool
 * that could not grow beyond its first part, a client may hold all of it. */
static bool within_half(const struct mem_staging *pool, const struct mem_stager *stager,
			uint64_t size)
{
	uint64_t half = pool->bytes / 2;

	return stager->held + size <= (half > MEM_SLOT_MAX ? half : MEM_SLOT_MAX);
}

/* Whether a slot of this size or larger is free, and the client may take one of this size without
 * exceeding half of the pool. `stager` is NULL if the caller is not a client. */
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

/* Queues the client for a slot of this size, with low priority if `patient` is set. If the client
 * is queued already, changes the size for which it waits and its priority. Returns whether the
 * client was not queued before. */
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

/* Whether another client than `stager` waits with normal priority. */
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
	uint32_t index;

	pthread_mutex_lock(&pool->lock);
	index = (uint32_t)(slot_offset(pool, slot) / size);
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

/* Returns the first client in the queue that can get its slot at present, or NULL. Skips clients
 * that would then hold more than half of the pool: they wait until they return slots, and must not
 * block others. */
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
