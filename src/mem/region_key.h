/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys by which peers name regions. A region has one key of its own, which any peer may use, and
 * keys that are bound to one peer each. All calls are made under the lock of the region table.
 */
#ifndef MEM_REGION_KEY_H
#define MEM_REGION_KEY_H

#include "mem/region.h"

struct mem_keys {
	uint8_t secret[32];    /* part of the input of all keys; never leaves this struct */
	uint64_t salt;	       /* input of the last key that is not STABLE */
	uint32_t count, bound; /* keys in the buckets; those of them that are bound to a peer */
	uint32_t nbuckets;
	struct mem_key **buckets;
};

/* Makes the secret and an empty hash. ERR_NO_MEMORY, ERR_SYSTEM (no random bytes). */
tcpx_status mem_keys_open(struct mem_keys *keys);
/* Frees the hash and the bound keys of all regions, and erases the secret. */
void mem_keys_close(struct mem_keys *keys);

/* Computes own.key of a region that is not in the hash yet. ERR_EXISTS: other memory has the same
 * STABLE key. */
tcpx_status mem_keys_assign(struct mem_keys *keys, struct mem_region *region);
/* Returns the region, not retired, of an earlier STABLE registration of the same memory; NULL:
 * there is none. */
struct mem_region *mem_keys_twin(const struct mem_keys *keys, const struct mem_region *region);
/* Adds the region's own key to the hash. */
void mem_keys_add(struct mem_keys *keys, struct mem_region *region);
/* Removes the region's own key and all bound ones. */
void mem_keys_remove(struct mem_keys *keys, struct mem_region *region);

/* *out_key: the region's key that is bound to the peer; made on the first call, the same one
 * later. ERR_LIMIT, ERR_NO_MEMORY. */
tcpx_status mem_keys_bind(struct mem_keys *keys, struct mem_region *region, const uint8_t *peer,
			  uint64_t *out_key);

/* Returns the next entry with this key value that the peer may use; NULL: none. peer: its proven
 * public key; NULL: it proved none. after: the entry that the previous call returned; NULL: begins
 * with the first entry. */
struct mem_key *mem_keys_find(const struct mem_keys *keys, uint64_t key, const uint8_t *peer,
			      const struct mem_key *after);

#endif
