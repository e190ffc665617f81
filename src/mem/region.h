/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Region table of a session. The application names a region by id. A peer names it by key, and
 * each access is checked for rights and range. An access holds an io reference while it runs. A
 * retired region refuses new accesses, and is quiesced when the last io reference is gone. The
 * struct of a region is freed with the last of its struct references (refs).
 */
#ifndef MEM_REGION_H
#define MEM_REGION_H

#include <stdint.h>

#include "mem/kind.h"
#include <tcpx/memory.h>

#define MEM_PEER_BYTES 32	 /* length of a public key */
#define MEM_BOUND_MAX (1u << 20) /* most keys of one table that are bound to peers */

struct mem_region;

/* A key by which peers name a region. Its fields do not change, except for next_same_bucket. */
struct mem_key {
	struct mem_key *next_same_bucket; /* under the table's lock */
	struct mem_region *region;
	uint64_t key; /* never 0 */
	/* proven public key of the only peer it serves; NULL: it serves any peer */
	const uint8_t *peer;
};

struct mem_region {
	const struct mem_kind *kind;
	uint8_t *base;
	uint64_t length;
	uint32_t device, rights, flags;
	/* number of the region in this process, by which peers name shared memory; not secret */
	uint64_t serial;
	uint64_t memory_id;    /* id of the allocation, from the kind's probe; 0: none */
	struct mem_key own;    /* the key that every peer may use */
	_Atomic uint32_t io;   /* number of running accesses */
	_Atomic uint32_t refs; /* number of references that keep the struct alive */
	_Atomic int retired;
	_Atomic uint32_t traits; /* enum mem_traits, from the mappings at the last check */
	_Atomic uint32_t cover;	 /* enum mem_cover, for GPU memory whose payload a plugin moves */
	uint32_t ids;		 /* number of ids that name the region; under the table's lock */
	struct bound_key *bound; /* keys that serve one peer each; under the table's lock */
};

/* What the CPU may do with the memory, and whether it may vanish. */
enum mem_traits {
	MEM_CAN_READ = 1u << 0,
	MEM_CAN_WRITE = 1u << 1,
	MEM_MAY_VANISH = 1u << 2, /* memory of a file: only system calls may copy it */
};

/* What is known of the whole pages that contain the memory. UNASKED: nothing yet; GIVEN: a plugin
 * may register them; REFUSED: the driver does not export them. */
enum mem_cover { MEM_COVER_UNASKED = 0, MEM_COVER_GIVEN, MEM_COVER_REFUSED };

struct mem_regions;

/* Makes a table. Keys are SipHash(secret; address, length, device, rights, salt); salt is a
 * counter, 0 for STABLE. Bound keys are SipHash(secret; the region's own key, salt, the peer's
 * public key). The table makes the secret, which never leaves it. The secret of the session must
 * not be used, because it is in the connection info, so every peer could compute keys from it.
 * ERR_NO_MEMORY, ERR_SYSTEM (no random bytes). */
tcpx_status mem_regions_create(struct mem_regions **out_regions);
/* Frees the table. Regions that somebody still references stay valid until their last
 * mem_region_put. */
void mem_regions_destroy(struct mem_regions *regions);

/* Registers memory. opts NULL: host memory that no peer may access. ERR_INVALID (NULL, zero,
 * wrap-around, unknown right or flag, a right that the mapping lacks), ERR_UNSUPPORTED (kind),
 * errors of the kind's probe, ERR_NO_MEMORY, ERR_LIMIT. The id has index and generation, is never
 * 0, and has bit 63 clear. A STABLE duplicate is one more id of the same region. */
tcpx_status mem_region_add(struct mem_regions *regions, void *addr, uint64_t length,
			   const tcpx_region_opts *opts, uint64_t *out_id);

/* TCPX_OK if the memory is still the allocation that was registered, or if the kind cannot tell,
 * as for host memory. ERR_STALE: it is another one, or is gone. */
tcpx_status mem_region_same(const struct mem_region *region);

/* TCPX_OK if the memory has these traits, of which MEM_CAN_READ and MEM_CAN_WRITE are checked. If
 * it lacked one at the last check, its mappings are checked again. ERR_INVALID: it lacks one; the
 * last error has the address. */
tcpx_status mem_region_allows(struct mem_region *region, uint32_t traits);

/* Whether the region counts as memory that may vanish: of a file, or of unknown mappings. */
static inline int mem_region_vanishes(const struct mem_region *region)
{
	return (atomic_load_explicit(&region->traits, memory_order_relaxed) & MEM_MAY_VANISH) != 0;
}

/* Checks the arguments of a registration and the memory, and fills in the fields of region that
 * follow from them. The errors are those of mem_region_add. */
tcpx_status mem_region_check(void *addr, uint64_t length, const tcpx_region_opts *opts,
			     struct mem_region *region);

/* Returns the region with a struct reference; NULL: the id is stale, or the region is retired. */
struct mem_region *mem_region_get(struct mem_regions *regions, uint64_t id);
void mem_region_put(struct mem_region *region);
void mem_region_hold(struct mem_region *region); /* adds a reference; the caller has one */

/* Takes an io reference; returns 0 if the region is retired. Lock-free. The caller holds a struct
 * reference until after its mem_region_io_put. */
int mem_region_io_get(struct mem_region *region);
/* Drops an io reference; the last one of a retired region wakes the waiters. Lock-free, except for
 * that wake-up. */
void mem_region_io_put(struct mem_region *region);

/* *out_key: the region's key for the peer with this public key (MEM_PEER_BYTES), which the peer
 * must have proven: the same key each time, valid as long as the region. ERR_STALE (retired),
 * ERR_LIMIT (MEM_BOUND_MAX), ERR_NO_MEMORY. */
tcpx_status mem_region_bind(struct mem_regions *regions, struct mem_region *region,
			    const uint8_t *peer, uint64_t *out_key);

/* Begins an access of a peer: on TCPX_OK the caller has an io and a struct reference of
 * *out_region. ERR_REMOTE_KEY, ERR_REMOTE_RIGHTS, ERR_REMOTE_RANGE (overflow-safe). peer: its
 * proven public key; NULL: it proved none. A key that is bound to another peer counts as
 * unknown. */
tcpx_status mem_region_access(struct mem_regions *regions, const uint8_t *peer, uint64_t key,
			      uint64_t offset, uint64_t length, uint32_t right,
			      struct mem_region **out_region);
/* Checks a further range for the key and peer of an access that the caller has begun; takes no
 * lock and no further references. ERR_REMOTE_RIGHTS, ERR_REMOTE_RANGE. */
tcpx_status mem_region_access_more(const struct mem_region *region, uint64_t offset,
				   uint64_t length, uint32_t right);
void mem_region_access_end(struct mem_region *region); /* drops the io and the struct reference */

/* Refuses new accesses to the region with this id. *out_region has a struct reference, which the
 * caller must put in any case; NULL: the region had several ids; this one is removed, and accesses
 * go on. May be called again on a retired region (after ERR_BUSY, or from two threads at once).
 * ERR_STALE: no region has this id. */
tcpx_status mem_region_retire(struct mem_regions *regions, uint64_t id,
			      struct mem_region **out_region);
/* Waits until no access to the retired region runs: TCPX_OK; ERR_BUSY: the deadline (absolute; <
 * 0: none) has passed. */
tcpx_status mem_region_quiesce(struct mem_region *region, int64_t deadline_ns);
/* Called after quiesce: removes the id and the keys of the region, and drops the reference of the
 * table. Does nothing if the id is removed already. */
void mem_region_remove(struct mem_regions *regions, uint64_t id);

uint32_t mem_regions_count(struct mem_regions *regions); /* number of ids */

#endif
