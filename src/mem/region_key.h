/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys by which peers name regions. A region has one key of its own, which serves every peer that
 * has it, and keys that are bound to one peer each. All calls are made under the lock of the
 * region table.
 */
#ifndef MEM_REGION_KEY_H
#define MEM_REGION_KEY_H

#include "mem/region.h"

struct mem_keys {
	uint8_t secret[32]; /* from which keys are made; never leaves this struct */
	uint64_t salt;
	uint32_t count, bound; /* keys in the buckets; how many of them are bound */
	uint32_t nbuckets;
	struct mem_key **buckets;
};

/* ERR_NO_MEMORY, ERR_SYSTEM (no random bytes). */
tcpx_status mem_keys_open(struct mem_keys *keys);
/* Frees the bound keys of all regions. */
void mem_keys_close(struct mem_keys *keys);

/* Makes the key of a region that has none. ERR_EXISTS: its STABLE key is taken. */
tcpx_status mem_keys_assign(struct mem_keys *keys, struct mem_region *region);
/* The live STABLE registration of the same memory, which has that key; or NULL. */
struct mem_region *mem_keys_twin(const struct mem_keys *keys, const struct mem_region *region);
void mem_keys_add(struct mem_keys *keys, struct mem_region *region);
/* Removes the region's own key and all bound ones. */
void mem_keys_remove(struct mem_keys *keys, struct mem_region *region);

/* The region's key for that peer, the same one each time. ERR_LIMIT, ERR_NO_MEMORY. */
tcpx_status mem_keys_bind(struct mem_keys *keys, struct mem_region *region, const uint8_t *peer,
			  uint64_t *out_key);

/* The next key of that value that serves a peer with the proven public key peer (NULL: none);
 * after: the previous one, or NULL. */
struct mem_key *mem_keys_find(const struct mem_keys *keys, uint64_t key, const uint8_t *peer,
			      const struct mem_key *after);

#endif
