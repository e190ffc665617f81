/* SPDX-License-Identifier: Apache-2.0 */
/* The table of regions. Ids are in an array that grows by SLOT_CHUNK entries, keys in a hash
 * table (region_key.c). One rwlock guards both; io references, which accesses hold, need no lock.
 * docs/design/memory.md has the invariants. */
#include "mem/region.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "mem/region_key.h"
#include "mem/staging.h"
#include "sys/futex.h"

#define SLOT_BITS 22 /* index bits of an id; the next 41 bits are the generation, bit 63 is 0 */
#define INDEX_MASK ((1u << SLOT_BITS) - 1)
#define SLOT_CHUNK 1024u
#define SLOT_CHUNKS ((1u << SLOT_BITS) / SLOT_CHUNK)
#define GENERATION_MASK ((1ull << (63 - SLOT_BITS)) - 1)

/* An entry of the table of ids. */
struct slot {
	/* generation of the slot's present or latest region; 0 if the slot was never used */
	uint64_t generation;
	struct mem_region *region;
	uint32_t next_free; /* index of the next free slot; used while region is NULL */
};

struct mem_regions {
	/* guards the fields below; the atomic fields of regions need no lock */
	pthread_rwlock_t lock;
	struct mem_keys keys;		 /* all keys of the regions: own and bound ones */
	uint32_t count, used, free_head; /* number of ids; slots ever used; first free slot */
	struct slot *chunks[SLOT_CHUNKS];
};

#define NO_SLOT UINT32_MAX

static _Atomic uint64_t serials; /* the last serial that a region of this process got */

tcpx_status mem_regions_create(struct mem_regions **out_regions)
{
	struct mem_regions *regions = calloc(1, sizeof(*regions));
	pthread_rwlockattr_t attr;
	tcpx_status status;

	if (!regions)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "region table");
	status = mem_keys_open(&regions->keys);
	if (status != TCPX_OK) {
		free(regions);
		return status;
	}
	regions->free_head = NO_SLOT;
	pthread_rwlockattr_init(&attr);
#ifdef __GLIBC__ /* prefer writers: many accesses must not starve a deregistration */
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
	pthread_rwlock_init(&regions->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	*out_regions = regions;
	return TCPX_OK;
}

/* Returns the slot with this index, which must be below regions->used. */
static struct slot *slot_at(struct mem_regions *regions, uint32_t index)
{
	return &regions->chunks[index / SLOT_CHUNK][index % SLOT_CHUNK];
}

void mem_regions_destroy(struct mem_regions *regions)
{
	if (!regions)
		return;
	mem_keys_close(&regions->keys);
	for (uint32_t i = 0; i < regions->used; i++) {
		struct mem_region *region = slot_at(regions, i)->region;

		if (region) {
			atomic_store(&region->retired, 1);
			mem_region_put(region);
		}
	}
	for (uint32_t i = 0; i < SLOT_CHUNKS; i++)
		free(regions->chunks[i]);
	pthread_rwlock_destroy(&regions->lock);
	free(regions);
}

/* Takes a free slot; *out_index is its index. Returns ERR_LIMIT or ERR_NO_MEMORY if there is none.
 * Called under the write lock. */
static tcpx_status slot_take(struct mem_regions *regions, uint32_t *out_index)
{
	uint32_t index = regions->free_head;

	if (index != NO_SLOT) {
		regions->free_head = slot_at(regions, index)->next_free;
	} else {
		struct slot **chunk;

		index = regions->used;
		if (index == SLOT_CHUNK * SLOT_CHUNKS)
			return error_set(
				TCPX_ERR_LIMIT, 0,
				"%u regions are registered, which is the most that is possible",
				index);
		chunk = &regions->chunks[index / SLOT_CHUNK];
		if (!*chunk)
			*chunk = calloc(SLOT_CHUNK, sizeof(**chunk));
		if (!*chunk)
			return error_set(TCPX_ERR_NO_MEMORY, 0, "region table");
		regions->used++;
	}
	*out_index = index;
	return TCPX_OK;
}

/* Puts the region into the slot, with the slot's next generation. Returns the new id. */
static uint64_t slot_fill(struct mem_regions *regions, uint32_t index, struct mem_region *region)
{
	struct slot *slot = slot_at(regions, index);

	slot->generation = (slot->generation + 1) & GENERATION_MASK;
	if (!slot->generation)
		slot->generation = 1;
	slot->region = region;
	regions->count++;
	return slot->generation << SLOT_BITS | index;
}

static void slot_empty(struct mem_regions *regions, uint64_t id)
{
	uint32_t index = id & INDEX_MASK;
	struct slot *slot = slot_at(regions, index);

	slot->region = NULL;
	slot->next_free = regions->free_head;
	regions->free_head = index;
	regions->count--;
}

/* Registers memory. First checks and prepares the region without the lock, because probing memory
 * and opening staging pools are slow. Then gives the region its key and id under the lock. */
tcpx_status mem_region_add(struct mem_regions *regions, void *addr, uint64_t length,
			   const tcpx_region_opts *opts, uint64_t *out_id)
{
	static const tcpx_region_opts local_host = {.sz = sizeof(local_host)};
	struct mem_region *region, *twin;
	tcpx_status status;
	uint32_t index = 0;

	region = calloc(1, sizeof(*region));
	if (!region)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "region");
	status = mem_region_check(addr, length, opts ? opts : &local_host, region);
	if (!status && region->kind->staged)
		status = mem_staging_open(region->kind, region->device);
	if (status) {
		free(region);
		return status;
	}
	region->serial = atomic_fetch_add(&serials, 1) + 1;
	atomic_init(&region->refs, 1);

	pthread_rwlock_wrlock(&regions->lock);
	status = mem_keys_assign(&regions->keys, region);
	if (!status)
		status = slot_take(regions, &index);
	if (status)
		goto out;
	twin = mem_keys_twin(&regions->keys, region);
	/* A STABLE region that is registered already gets one more id. It is retired only with its
	 * last id. */
	if (twin) {
		atomic_fetch_add(&twin->refs, 1);
		/* the mappings may have changed since the earlier registration */
		atomic_store(&twin->traits, atomic_load(&region->traits));
		free(region);
		region = twin;
	} else {
		mem_keys_add(&regions->keys, region);
	}
	region->ids++;
	*out_id = slot_fill(regions, index, region);
out:
	pthread_rwlock_unlock(&regions->lock);
	if (status)
		free(region);
	return status;
}

tcpx_status mem_region_same(const struct mem_region *region)
{
	const struct mem_kind *kind = region->kind;

	if (!kind->same ||
	    kind->same(region->base, region->length, region->device, region->memory_id))
		return TCPX_OK;
	error_set(TCPX_ERR_STALE, 0, "memory %p of the region was freed since it was registered",
		  (void *)region->base);
	return error_next("deregister the region and register what is there now");
}

/* Returns the region with this id, or NULL if the id is stale. Called under the lock. */
static struct mem_region *region_of_id(struct mem_regions *regions, uint64_t id)
{
	uint32_t index = id & INDEX_MASK;
	const struct slot *slot;

	if (index >= regions->used)
		return NULL;
	slot = slot_at(regions, index);
	return slot->generation == id >> SLOT_BITS ? slot->region : NULL;
}

struct mem_region *mem_region_get(struct mem_regions *regions, uint64_t id)
{
	struct mem_region *region;

	pthread_rwlock_rdlock(&regions->lock);
	region = region_of_id(regions, id);
	if (region && atomic_load(&region->retired))
		region = NULL;
	if (region)
		atomic_fetch_add_explicit(&region->refs, 1, memory_order_relaxed);
	pthread_rwlock_unlock(&regions->lock);
	return region;
}

void mem_region_hold(struct mem_region *region)
{
	atomic_fetch_add_explicit(&region->refs, 1, memory_order_relaxed);
}

void mem_region_put(struct mem_region *region)
{
	if (atomic_fetch_sub_explicit(&region->refs, 1, memory_order_acq_rel) == 1)
		free(region);
}

/*
 * Takes an io reference. Either this function reads that the region is retired and fails, or
 * mem_region_quiesce reads that `io` counts the access. This holds because this function writes
 * `io` and then reads `retired`, while the deregistering thread writes `retired`
 * (mem_region_retire) and then reads `io`, all sequentially consistent.
 */
int mem_region_io_get(struct mem_region *region)
{
	atomic_fetch_add(&region->io, 1);
	if (!atomic_load(&region->retired))
		return 1;
	mem_region_io_put(region);
	return 0;
}

void mem_region_io_put(struct mem_region *region)
{
	if (atomic_fetch_sub(&region->io, 1) == 1 && atomic_load(&region->retired))
		sys_futex_wake(&region->io, INT_MAX);
}

static tcpx_status access_check(const struct mem_region *region, uint64_t offset, uint64_t length,
				uint32_t right)
{
	if ((region->rights & right) != right)
		return TCPX_ERR_REMOTE_RIGHTS;
	if (offset > region->length || length > region->length - offset)
		return TCPX_ERR_REMOTE_RANGE;
	return TCPX_OK;
}

tcpx_status mem_region_bind(struct mem_regions *regions, struct mem_region *region,
			    const uint8_t *peer, uint64_t *out_key)
{
	tcpx_status status;

	pthread_rwlock_wrlock(&regions->lock);
	/* a retired region may be removed already; a key added after that would remain */
	if (atomic_load(&region->retired))
		status = error_set(TCPX_ERR_STALE, 0, "region is not registered");
	else
		status = mem_keys_bind(&regions->keys, region, peer, out_key);
	pthread_rwlock_unlock(&regions->lock);
	return status;
}

tcpx_status mem_region_access(struct mem_regions *regions, const uint8_t *peer, uint64_t key,
			      uint64_t offset, uint64_t length, uint32_t right,
			      struct mem_region **out_region)
{
	tcpx_status status = TCPX_ERR_REMOTE_KEY;
	struct mem_key *name = NULL;

	pthread_rwlock_rdlock(&regions->lock);
	while ((name = mem_keys_find(&regions->keys, key, peer, name))) {
		struct mem_region *region = name->region;

		if (!mem_region_io_get(region))
			continue;
		status = access_check(region, offset, length, right);
		/* the key depends on memory, rights and length, so each region with this key gives
		 * the same result */
		if (status) {
			mem_region_io_put(region);
			break;
		}
		atomic_fetch_add_explicit(&region->refs, 1, memory_order_relaxed);
		*out_region = region;
		break;
	}
	pthread_rwlock_unlock(&regions->lock);
	return status;
}

tcpx_status mem_region_access_more(const struct mem_region *region, uint64_t offset,
				   uint64_t length, uint32_t right)
{
	return access_check(region, offset, length, right);
}

void mem_region_access_end(struct mem_region *region)
{
	mem_region_io_put(region);
	mem_region_put(region);
}

tcpx_status mem_region_retire(struct mem_regions *regions, uint64_t id,
			      struct mem_region **out_region)
{
	struct mem_region *region;

	*out_region = NULL;
	pthread_rwlock_wrlock(&regions->lock);
	region = region_of_id(regions, id);
	if (region && region->ids > 1) {
		region->ids--;
		slot_empty(regions, id);
		/* drops the reference of this id; each other id of the region has its own */
		mem_region_put(region);
	} else if (region) {
		atomic_store(&region->retired, 1);
		atomic_fetch_add_explicit(&region->refs, 1, memory_order_relaxed);
		*out_region = region;
	}
	pthread_rwlock_unlock(&regions->lock);
	if (!region)
		return error_set(TCPX_ERR_STALE, 0, "region handle 0x%llx is not registered",
				 (unsigned long long)id);
	return TCPX_OK;
}

tcpx_status mem_region_quiesce(struct mem_region *region, int64_t deadline_ns)
{
	int late = 0;
	uint32_t io;

	while ((io = atomic_load(&region->io))) {
		if (late)
			return error_set(TCPX_ERR_BUSY, 0, "region %p: %u accesses under way",
					 (void *)region->base, io);
		late = sys_futex_wait(&region->io, io, deadline_ns);
	}
	return TCPX_OK;
}

void mem_region_remove(struct mem_regions *regions, uint64_t id)
{
	struct mem_region *region;

	pthread_rwlock_wrlock(&regions->lock);
	region = region_of_id(regions, id);
	if (region) {
		mem_keys_remove(&regions->keys, region);
		slot_empty(regions, id);
	}
	pthread_rwlock_unlock(&regions->lock);
	if (region)
		mem_region_put(region);
}

uint32_t mem_regions_count(struct mem_regions *regions)
{
	uint32_t count;

	pthread_rwlock_rdlock(&regions->lock);
	count = regions->count;
	pthread_rwlock_unlock(&regions->lock);
	return count;
}
