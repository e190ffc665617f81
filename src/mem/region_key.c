/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of regions: computes them, and finds them in a hash table. */
#include "mem/region_key.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/siphash.h"
#include "sys/crypto.h"

#define BUCKETS_MIN 64u

/* A key of a region that serves one peer only. */
struct bound_key {
	/* entry in the hash table; it comes first, so that a pointer to it can be passed to
	 * free() */
	struct mem_key name;
	struct bound_key *next_of_region; /* list of the region's bound keys */
	uint8_t peer[MEM_PEER_BYTES];
};

tcpx_status mem_keys_open(struct mem_keys *keys)
{
	tcpx_status status;

	keys->buckets = calloc(BUCKETS_MIN, sizeof(struct mem_key *));
	if (!keys->buckets)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "region table");
	status = sys_random(keys->secret, sizeof(keys->secret));
	if (status != TCPX_OK) {
		free(keys->buckets);
		return status;
	}
	keys->nbuckets = BUCKETS_MIN;
	return TCPX_OK;
}

void mem_keys_close(struct mem_keys *keys)
{
	for (uint32_t i = 0; i < keys->nbuckets; i++) {
		struct mem_key *name = keys->buckets[i], *next;

		for (; name; name = next) {
			next = name->next_same_bucket;
			name->region->bound = NULL; /* the region may outlive the table */
			if (name->peer)
				free(name);
		}
	}
	free(keys->buckets);
	explicit_bzero(keys, sizeof(*keys));
}

static struct mem_key **bucket_of(const struct mem_keys *keys, uint64_t key)
{
	return &keys->buckets[key & (keys->nbuckets - 1)];
}

static void buckets_grow(struct mem_keys *keys)
{
	uint32_t old_count = keys->nbuckets;
	struct mem_key **old = keys->buckets;
	struct mem_key **grown = calloc((size_t)old_count * 2, sizeof(struct mem_key *));

	if (!grown)
		return; /* without memory the lists of the buckets only get longer */
	keys->buckets = grown;
	keys->nbuckets = old_count * 2;
	for (uint32_t i = 0; i < old_count; i++) {
		while (old[i]) {
			struct mem_key *name = old[i];
			struct mem_key **bucket = bucket_of(keys, name->key);

			old[i] = name->next_same_bucket;
			name->next_same_bucket = *bucket;
			*bucket = name;
		}
	}
	free(old);
}

static void key_insert(struct mem_keys *keys, struct mem_key *name)
{
	struct mem_key **bucket;

	if (keys->count >= keys->nbuckets)
		buckets_grow(keys);
	bucket = bucket_of(keys, name->key);
	name->next_same_bucket = *bucket;
	*bucket = name;
	keys->count++;
}

static void key_unlink(struct mem_keys *keys, struct mem_key *name)
{
	struct mem_key **at = bucket_of(keys, name->key);

	while (*at != name)
		at = &(*at)->next_same_bucket;
	*at = name->next_same_bucket;
	keys->count--;
}

/* Whether a peer may use the key: the key is bound to this peer, or is not bound. Does not check
 * rights. */
static bool key_serves(const struct mem_key *name, const uint8_t *peer)
{
	return !name->peer || (peer && !memcmp(name->peer, peer, MEM_PEER_BYTES));
}

struct mem_key *mem_keys_find(const struct mem_keys *keys, uint64_t key, const uint8_t *peer,
			      const struct mem_key *after)
{
	struct mem_key *name = after ? after->next_same_bucket : *bucket_of(keys, key);

	while (name && (name->key != key || !key_serves(name, peer)))
		name = name->next_same_bucket;
	return name;
}

/* Overwrites the first 16 bytes of `text` with a part of the secret, hashes `text`, and erases it.
 * Returns the hash, which is never 0. Texts for own keys and texts for bound keys differ in length,
 * which SipHash includes, so no bound key has the text of an own key. */
static uint64_t hash_key_text(const struct mem_keys *keys, void *text, size_t bytes)
{
	uint64_t key;

	memcpy(text, keys->secret + 16, 16);
	key = siphash(keys->secret, text, bytes);
	explicit_bzero(text, bytes);
	return key ? key : 1;
}

static uint64_t own_key(const struct mem_keys *keys, const struct mem_region *region, uint64_t salt)
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

	return hash_key_text(keys, &text, sizeof(text));
}

/* Returns a key of the region that serves `peer` only: a hash of the region's own key, the salt and
 * the peer's public key. The own key stands for the fields that own_key() hashes. */
static uint64_t bound_key_for(const struct mem_keys *keys, const struct mem_region *region,
			      const uint8_t *peer, uint64_t salt)
{
	struct {
		uint8_t secret[16];
		uint64_t own, salt;
		uint8_t peer[MEM_PEER_BYTES];
	} text = {.own = region->own.key, .salt = salt};

	memcpy(text.peer, peer, sizeof(text.peer));
	return hash_key_text(keys, &text, sizeof(text));
}

static bool same_memory(const struct mem_region *a, const struct mem_region *b)
{
	return a->base == b->base && a->length == b->length && a->kind == b->kind &&
	       a->device == b->device && a->memory_id == b->memory_id && a->rights == b->rights;
}

static bool are_twins(const struct mem_region *a, const struct mem_region *b)
{
	return a->flags & b->flags & TCPX_REGION_STABLE && same_memory(a, b);
}

struct mem_region *mem_keys_twin(const struct mem_keys *keys, const struct mem_region *region)
{
	struct mem_key *name = NULL;

	while ((name = mem_keys_find(keys, region->own.key, NULL, name)))
		if (are_twins(region, name->region) && !atomic_load(&name->region->retired))
			return name->region;
	return NULL;
}

/* Whether another key has this value. `peer` is the peer to which the key will be bound, or NULL
 * for the key that every peer may use. A key of the same region for the same `peer` is not another
 * key. Two STABLE registrations of the same memory with the same rights count as one region. */
static bool key_clashes(const struct mem_keys *keys, const struct mem_region *region, uint64_t key,
			const uint8_t *peer)
{
	const struct mem_key *name = *bucket_of(keys, key);

	for (; name; name = name->next_same_bucket)
		if (name->key == key &&
		    !(!name->peer == !peer && key_serves(name, peer) &&
		      (name->region == region || are_twins(region, name->region))))
			return true;
	return false;
}

tcpx_status mem_keys_assign(struct mem_keys *keys, struct mem_region *region)
{
	struct mem_key *own = &region->own;

	own->region = region;
	if (region->flags & TCPX_REGION_STABLE) {
		own->key = own_key(keys, region, 0);
		if (!key_clashes(keys, region, own->key, NULL))
			return TCPX_OK;
		error_set(TCPX_ERR_EXISTS, 0, "stable key of the region is taken");
		return error_next("deregister the earlier region at this address");
	}
	do
		own->key = own_key(keys, region, ++keys->salt);
	while (key_clashes(keys, region, own->key, NULL));
	return TCPX_OK;
}

void mem_keys_add(struct mem_keys *keys, struct mem_region *region)
{
	key_insert(keys, &region->own);
}

void mem_keys_remove(struct mem_keys *keys, struct mem_region *region)
{
	struct bound_key *bound;

	key_unlink(keys, &region->own);
	while ((bound = region->bound)) {
		region->bound = bound->next_of_region;
		key_unlink(keys, &bound->name);
		keys->bound--;
		free(bound);
	}
}

/* Whether the region already has this key, bound to the peer. */
static bool is_bound(const struct mem_keys *keys, const struct mem_region *region, uint64_t key,
		     const uint8_t *peer)
{
	const struct mem_key *name = NULL;

	while ((name = mem_keys_find(keys, key, peer, name)))
		if (name->region == region)
			return true;
	return false;
}

tcpx_status mem_keys_bind(struct mem_keys *keys, struct mem_region *region, const uint8_t *peer,
			  uint64_t *out_key)
{
	struct bound_key *bound;
	uint64_t salt = 0, key;

	do
		key = bound_key_for(keys, region, peer, salt++);
	while (key_clashes(keys, region, key, peer));
	if (is_bound(keys, region, key, peer)) {
		*out_key = key;
		return TCPX_OK;
	}
	if (keys->bound >= MEM_BOUND_MAX) {
		error_set(TCPX_ERR_LIMIT, 0, "%u region tokens are bound to peers", keys->bound);
		return error_next("deregister regions that peers no longer need, which ends their "
				  "tokens, or export an unbound token");
	}
	bound = calloc(1, sizeof(*bound));
	if (!bound)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "bound region token");
	memcpy(bound->peer, peer, sizeof(bound->peer));
	bound->name = (struct mem_key){.region = region, .key = key, .peer = bound->peer};
	bound->next_of_region = region->bound;
	region->bound = bound;
	key_insert(keys, &bound->name);
	keys->bound++;
	*out_key = key;
	return TCPX_OK;
}
