/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys by which peers name regions. A region has one key of its own, which any peer may use, and
 * keys that are bound to one peer each. All calls are made under the lock of the region table.
 */
#ifndef MEM_REGION_KEY_H
#define MEM_REGION_KEY_H

#include "mem/region.h"

struct mem_keys {
	uint8_t secret[32]; /* input of all keys; never leaves this struct */
	uint64_t salt;
	uint32_t count, bound; /* keys in the buckets; those of them that are bound to a peer */
	uint32_t nbuckets;
	struct mem_key **buckets;
};

/* Makes the secret and an empty hash. ERR_NO_MEMORY, ERR_SYSTEM (no random bytes). */
tcpx_status mem_keys_open(struct mem_keys *keys);
/* Frees the bound keys of all regions. */
void mem_keys_close(struct mem_keys *keys);

/* Makes the key of a region that has none. ERR_EXISTS: other memory has the same STABLE key. */
tcpx_status mem_keys_assign(struct mem_keys *keys, struct mem_region *region);
/* The region of an earlier STABLE registration of the same memory that is still live; NULL:
 * none. */
struct mem_region *mem_keys_twin(const struct mem_keys *keys, const struct mem_region *region);
void mem_keys_add(struct mem_keys *keys, struct mem_region *region);
/* Removes the region's own key and all bound ones. */
void mem_keys_remove(struct mem_keys *keys, struct mem_region *region);

/* The region's key that is bound to the peer, the same one each time. ERR_LIMIT, ERR_NO_MEMORY. */
tcpx_status mem_keys_bind(struct mem_keys *keys, struct mem_region *region, const uint8_t *peer,
			  uint64_t *out_key);

/* The next entry with this key value that the peer may use. peer: its proven public key; NULL: it
 * proved none. after: the entry found before; NULL: begins with the first. */
struct mem_key *mem_keys_find(const struct mem_keys *keys, uint64_t key, const uint8_t *peer,
			      const struct mem_key *after);

#endif
