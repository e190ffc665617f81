/* SPDX-License-Identifier: Apache-2.0 */
/* Region table: ids in a chunked array, keys in a hash, both under one rwlock; io references beside
 * it. docs/design/memory.md has the invariants. */
#include "mem/region.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/siphash.h"
#include "mem/staging.h"
#include "sys/crypto.h"
#include "sys/futex.h"

#define SLOT_BITS 22 /* index bits of an id; the generation has the next 41, bit 63 stays clear */
#define INDEX_MASK ((1u << SLOT_BITS) - 1)
#define SLOT_CHUNK 1024u
#define SLOT_CHUNKS ((1u << SLOT_BITS) / SLOT_CHUNK)
#define GENERATION_MASK ((1ull << (63 - SLOT_BITS)) - 1)
#define BUCKETS_MIN 64u

struct slot {
	uint64_t generation; /* of the region in it, or of the last one; 0: never used */
	struct mem_region *region;
	uint32_t next_free;
};

struct mem_regions {
	pthread_rwlock_t lock; /* guards all below but the regions' atomics */
	uint8_t secret[32];    /* keys the region keys; nobody else has it */
	uint64_t salt;
	uint32_t count, used, free_head; /* slots: live, ever used, head of the free list */
	uint32_t nbuckets;
	struct mem_region **buckets;
	struct slot *chunks[SLOT_CHUNKS];
};

#define NO_SLOT UINT32_MAX

static _Atomic uint64_t serials; /* regions of this process so far */

tcpx_status mem_regions_create(struct mem_regions **out_regions)
{
	struct mem_regions *regions = calloc(1, sizeof(*regions));
	pthread_rwlockattr_t attr;
	tcpx_status status;

	if (regions)
		regions->buckets = calloc(BUCKETS_MIN, sizeof(*regions->buckets));
	if (!regions || !regions->buckets) {
		free(regions);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "region table");
	}
	status = sys_random(regions->secret, sizeof(regions->secret));
	if (status != TCPX_OK) {
		free(regions->buckets);
		free(regions);
		return status;
	}
	regions->nbuckets = BUCKETS_MIN;
	regions->free_head = NO_SLOT;
	pthread_rwlockattr_init(&attr);
#ifdef __GLIBC__ /* a stream of accesses must not starve a deregistration */
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
	pthread_rwlock_init(&regions->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	*out_regions = regions;
	return TCPX_OK;
}

static struct slot *slot_at(struct mem_regions *regions, uint32_t index)
{
	return &regions->chunks[index / SLOT_CHUNK][index % SLOT_CHUNK];
}

void mem_regions_destroy(struct mem_regions *regions)
{
	if (!regions)
		return;
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
	free(regions->buckets);
	explicit_bzero(regions, sizeof(*regions));
	free(regions);
}

static struct mem_region **bucket_of(struct mem_regions *regions, uint64_t key)
{
	return &regions->buckets[key & (regions->nbuckets - 1)];
}

static void buckets_grow(struct mem_regions *regions)
{
	uint32_t old_count = regions->nbuckets;
	struct mem_region **old = regions->buckets;
	struct mem_region **grown = calloc((size_t)old_count * 2, sizeof(*grown));

	if (!grown)
		return; /* longer chains, nothing worse */
	regions->buckets = grown;
	regions->nbuckets = old_count * 2;
	for (uint32_t i = 0; i < old_count; i++) {
		while (old[i]) {
			struct mem_region *region = old[i];
			struct mem_region **bucket = bucket_of(regions, region->key);

			old[i] = region->next_same_bucket;
			region->next_same_bucket = *bucket;
			*bucket = region;
		}
	}
	free(old);
}

static uint64_t key_make(const struct mem_regions *regions, const struct mem_region *region,
			 uint64_t salt)
{
	struct {
		uint8_t secret[16];
		uint64_t addr, length, place, rights, salt;
	} text = {
		.addr = (uintptr_t)region->base,
		.length = region->length,
		.place = (uint64_t)region->kind->kind << 32 | region->device,
		.rights = region->rights,
		.salt = salt,
	};
	uint64_t key;

	memcpy(text.secret, regions->secret + 16, sizeof(text.secret));
	key = siphash(regions->secret, &text, sizeof(text));
	explicit_bzero(text.secret, sizeof(text.secret));
	return key ? key : 1;
}

static int same_memory(const struct mem_region *a, const struct mem_region *b)
{
	return a->base == b->base && a->length == b->length && a->kind == b->kind &&
	       a->device == b->device && a->memory_id == b->memory_id && a->rights == b->rights;
}

/* The live STABLE registration of the same memory, or NULL. */
static struct mem_region *twin_of(struct mem_regions *regions, const struct mem_region *region)
{
	struct mem_region *other = *bucket_of(regions, region->key);

	for (; other; other = other->next_same_bucket)
		if (other->key == region->key &&
		    region->flags & other->flags & TCPX_REGION_STABLE &&
		    same_memory(region, other) && !atomic_load(&other->retired))
			return other;
	return NULL;
}

/* Is key taken by something that must not be reached through it? */
static int key_clash(struct mem_regions *regions, const struct mem_region *region, uint64_t key)
{
	struct mem_region *other = *bucket_of(regions, key);

	for (; other; other = other->next_same_bucket)
		if (other->key == key && !(region->flags & other->flags & TCPX_REGION_STABLE &&
					   same_memory(region, other)))
			return 1;
	return 0;
}

static tcpx_status key_assign(struct mem_regions *regions, struct mem_region *region)
{
	if (region->flags & TCPX_REGION_STABLE) {
		region->key = key_make(regions, region, 0);
		if (!key_clash(regions, region, region->key))
			return TCPX_OK;
		error_set(TCPX_ERR_EXISTS, 0, "stable key of the region is taken");
		return error_next("deregister what was registered at this address before");
	}
	do
		region->key = key_make(regions, region, ++regions->salt);
	while (key_clash(regions, region, region->key));
	return TCPX_OK;
}

static tcpx_status slot_take(struct mem_regions *regions, uint32_t *out_index)
{
	uint32_t index = regions->free_head;

	if (index != NO_SLOT) {
		regions->free_head = slot_at(regions, index)->next_free;
	} else {
		struct slot **chunk;

		index = regions->used;
		if (index == SLOT_CHUNK * SLOT_CHUNKS)
			return error_set(TCPX_ERR_LIMIT, 0, "%u registered regions", index);
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

/* The id of the region that is in that slot from now on. */
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

static void bucket_add(struct mem_regions *regions, struct mem_region *region)
{
	struct mem_region **bucket;

	if (regions->count >= regions->nbuckets)
		buckets_grow(regions);
	bucket = bucket_of(regions, region->key);
	region->next_same_bucket = *bucket;
	*bucket = region;
}

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
	status = key_assign(regions, region);
	if (!status)
		status = slot_take(regions, &index);
	if (status)
		goto out;
	twin = twin_of(regions, region);
	if (twin) { /* one region with one more id: it is quiesced with the last of them */
		atomic_fetch_add(&twin->refs, 1);
		atomic_store(&twin->traits, atomic_load(&region->traits)); /* mapped anew, maybe */
		free(region);
		region = twin;
	} else {
		bucket_add(regions, region);
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

/* Under the lock. NULL when stale. */
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
 * Either the access sees retired and steps back, or quiesce sees its io: both sides write their own
 * variable and then read the other's, sequentially consistent.
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

tcpx_status mem_region_access(struct mem_regions *regions, uint64_t key, uint64_t offset,
			      uint64_t length, uint32_t right, struct mem_region **out_region)
{
	tcpx_status status = TCPX_ERR_REMOTE_KEY;
	struct mem_region *region;

	pthread_rwlock_rdlock(&regions->lock);
	for (region = *bucket_of(regions, key); region; region = region->next_same_bucket) {
		if (region->key != key || !mem_region_io_get(region))
			continue;
		status = access_check(region, offset, length, right);
		if (status) { /* the same for every region of this key */
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

tcpx_status mem_region_access_more(const struct mem_region *region, uint64_t key, uint64_t offset,
				   uint64_t length, uint32_t right)
{
	return region->key == key ? access_check(region, offset, length, right)
				  : TCPX_ERR_REMOTE_KEY;
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
		mem_region_put(region); /* the slot's; another one has its own */
	} else if (region) {
		atomic_store(&region->retired, 1);
		atomic_fetch_add_explicit(&region->refs, 1, memory_order_relaxed);
		*out_region = region;
	}
	pthread_rwlock_unlock(&regions->lock);
	if (!region)
		return error_set(TCPX_ERR_STALE, 0, "region handle 0x%llx", (unsigned long long)id);
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
	struct mem_region *region, **at;

	pthread_rwlock_wrlock(&regions->lock);
	region = region_of_id(regions, id);
	if (region) {
		for (at = bucket_of(regions, region->key); *at != region;
		     at = &(*at)->next_same_bucket)
			;
		*at = region->next_same_bucket;
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
