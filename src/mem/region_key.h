/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys by which peers name regions. A region has one key of its own, which any peer may use, and
 * bound keys, each of which one peer may use. The caller holds the lock of the region table, except
 * in mem_keys_open and mem_keys_close.
 */
#ifndef MEM_REGION_KEY_H
#define MEM_REGION_KEY_H

#include "mem/region.h"

struct mem_keys {
	uint8_t secret[32];    /* part of the input of all keys; never leaves this struct */
	uint64_t salt;	       /* salt of the last own key that is not STABLE */
	uint32_t count, bound; /* number of keys in the buckets; number of bound keys among them */
	uint32_t nbuckets;
	struct mem_key **buckets;
};

/* Makes the secret and an empty hash table. Returns ERR_NO_MEMORY, or ERR_SYSTEM if there are no
 * random bytes. */
tcpx_status mem_keys_open(struct mem_keys *keys);
/* Frees the hash table and the bound keys of all regions, and erases the secret. */
void mem_keys_close(struct mem_keys *keys);

/* Computes own.key of a region that is not in the hash table yet. Returns ERR_EXISTS if other
 * memory has the same STABLE key. */
tcpx_status mem_keys_assign(struct mem_keys *keys, struct mem_region *region);
/* Returns the region of an earlier STABLE registration of the same memory with the same rights. If
 * that region is retired, if nobody registered the memory so before, or if `region` is not STABLE,
 * returns NULL. Called after mem_keys_assign. */
struct mem_region *mem_keys_twin(const struct mem_keys *keys, const struct mem_region *region);
/* Adds the region's own key to the hash table. */
void mem_keys_add(struct mem_keys *keys, struct mem_region *region);
/* Removes the region's own key and all its bound keys. */
void mem_keys_remove(struct mem_keys *keys, struct mem_region *region);

/* *out_key is the region's key that is bound to the peer. The first call makes the key, and later
 * calls return the same one. Returns ERR_LIMIT or ERR_NO_MEMORY on failure. */
tcpx_status mem_keys_bind(struct mem_keys *keys, struct mem_region *region, const uint8_t *peer,
			  uint64_t *out_key);

/* Returns the next entry with this key value that the peer may use, or NULL. `peer` is the peer's
 * proven public key, or NULL if it proved none. `after` is the entry that the previous call
 * returned, or NULL to begin with the first entry. */
struct mem_key *mem_keys_find(const struct mem_keys *keys, uint64_t key, const uint8_t *peer,
			      const struct mem_key *after);

#endif
