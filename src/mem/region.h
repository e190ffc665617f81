/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The region table of a session. The application names a region by its id. A peer names a region by
 * a key, and each access of a peer is checked for rights and range. An access holds an io reference
 * while it runs. A retired region refuses new accesses, and is quiesced when its last io reference
 * is dropped. The struct of a region is freed with the last of its struct references (`refs`).
 */
#ifndef MEM_REGION_H
#define MEM_REGION_H

#include <stdint.h>

#include "mem/kind.h"
#include <tcpx/memory.h>

#define MEM_PEER_BYTES 32	 /* length of a public key in bytes */
#define MEM_BOUND_MAX (1u << 20) /* most keys of one table that are bound to peers */

struct mem_region;

/* A key by which peers name a region. Its fields do not change, except for next_same_bucket. */
struct mem_key {
	struct mem_key *next_same_bucket; /* guarded by the table's lock */
	struct mem_region *region;
	uint64_t key; /* never 0 */
	/* proven public key of the only peer that may use the key; NULL if any peer may */
	const uint8_t *peer;
};

struct mem_region {
	const struct mem_kind *kind;
	uint8_t *base;
	uint64_t length;
	uint32_t device, rights, flags;
	/* number of the region in this process, by which peers identify shared memory; not
	 * secret */
	uint64_t serial;
	uint64_t memory_id;    /* id of the allocation, from the kind's `probe`; 0 if none */
	struct mem_key own;    /* the key that every peer may use */
	_Atomic uint32_t io;   /* number of running accesses */
	_Atomic uint32_t refs; /* number of references that keep the struct alive */
	_Atomic int retired;
	_Atomic uint32_t traits; /* bits of enum mem_traits, as of the last check of the mappings */
	_Atomic uint32_t cover;	 /* enum mem_cover, for GPU memory whose payload a plugin moves */
	uint32_t ids; /* number of ids that name the region; guarded by the table's lock */
	struct bound_key *bound; /* keys that serve one peer each; guarded by the table's lock */
};

/* What the CPU may do with the memory, and whether the memory may vanish. */
enum mem_traits {
	MEM_CAN_READ = 1u << 0,
	MEM_CAN_WRITE = 1u << 1,
	/* memory of a file, or of unknown mappings: only system calls may copy it */
	MEM_MAY_VANISH = 1u << 2,
};

/* Whether the driver exports the whole pages that contain the memory. UNASKED: not known yet.
 * GIVEN: it does, or it is not asked because of TCPX_GPUDIRECT_COVER=0; a plugin may register the
 * pages. REFUSED: it does not. */
enum mem_cover { MEM_COVER_UNASKED = 0, MEM_COVER_GIVEN, MEM_COVER_REFUSED };

struct mem_regions;

/* Makes a table with a new random secret, which never leaves the table. A region's own key is
 * SipHash(secret; address, length, kind, device, rights, salt); the salt is a counter, or 0 for
 * STABLE regions. Bound keys are SipHash(secret; own key, n, the peer's public key); n is 0, or
 * more after collisions. The session's secret would not do: it is in the connection info, so every
 * peer could compute keys. Returns ERR_NO_MEMORY, or ERR_SYSTEM if there are no random bytes. */
tcpx_status mem_regions_create(struct mem_regions **out_regions);
/* Frees the table. Regions that are still referenced stay valid until their last mem_region_put. */
void mem_regions_destroy(struct mem_regions *regions);

/* Registers memory. If `opts` is NULL, registers host memory that no peer may access. Returns
 * ERR_INVALID (address NULL, zero length, wrap-around, unknown right or flag, a right that the
 * mapping lacks), ERR_UNSUPPORTED (kind), ERR_EXISTS (a STABLE key that other memory has),
 * ERR_NO_MEMORY, ERR_LIMIT, or an error of the kind's `probe` or of mem_staging_open. The id
 * contains index and generation, is never 0, and has bit 63 clear. A STABLE region that is
 * registered again gets one more id. */
tcpx_status mem_region_add(struct mem_regions *regions, void *addr, uint64_t length,
			   const tcpx_region_opts *opts, uint64_t *out_id);

/* Returns ERR_STALE if the memory is no longer the allocation that was registered. Returns TCPX_OK
 * if it is, or if the kind cannot tell, as for host memory. */
tcpx_status mem_region_same(const struct mem_region *region);

/* Returns TCPX_OK if the memory has the traits in `traits`: MEM_CAN_READ, MEM_CAN_WRITE or both. If
 * one was missing at the last check, checks the mappings again. Returns ERR_INVALID if one is still
 * missing; the last error has the address. */
tcpx_status mem_region_allows(struct mem_region *region, uint32_t traits);

/* Whether the memory may vanish, because it belongs to a file or its mappings are unknown. */
static inline int mem_region_vanishes(const struct mem_region *region)
{
	return (atomic_load_explicit(&region->traits, memory_order_relaxed) & MEM_MAY_VANISH) != 0;
}

/* Checks the memory and the arguments of a registration, and fills in the fields of `region` that
 * follow from them. Its errors are among those of mem_region_add. */
tcpx_status mem_region_check(void *addr, uint64_t length, const tcpx_region_opts *opts,
			     struct mem_region *region);

/* Returns the region with a new struct reference, or NULL if the id is stale or the region
 * retired. */
struct mem_region *mem_region_get(struct mem_regions *regions, uint64_t id);
void mem_region_put(struct mem_region *region);
void mem_region_hold(struct mem_region *region); /* adds a struct reference; the caller has one */

/* Takes an io reference and returns 1, or returns 0 if the region is retired. Lock-free. The caller
 * must hold a struct reference until after its mem_region_io_put. */
int mem_region_io_get(struct mem_region *region);
/* Drops an io reference. The last one of a retired region wakes the threads in mem_region_quiesce.
 * Lock-free, except for this wake-up. */
void mem_region_io_put(struct mem_region *region);

/* *out_key is the region's key that only the peer with this public key (MEM_PEER_BYTES) may use.
 * The peer must have proven its public key. Each call for the same peer gives the same key, which
 * is valid as long as the region. Returns ERR_STALE (retired), ERR_LIMIT (MEM_BOUND_MAX) or
 * ERR_NO_MEMORY. */
tcpx_status mem_region_bind(struct mem_regions *regions, struct mem_region *region,
			    const uint8_t *peer, uint64_t *out_key);

/* Begins an access of a peer. On TCPX_OK the caller has an io reference and a struct reference of
 * *out_region. `peer` is the peer's proven public key, or NULL if it proved none. A key that is
 * bound to another peer counts as unknown. Returns ERR_REMOTE_KEY, ERR_REMOTE_RIGHTS or
 * ERR_REMOTE_RANGE (overflow-safe). */
tcpx_status mem_region_access(struct mem_regions *regions, const uint8_t *peer, uint64_t key,
			      uint64_t offset, uint64_t length, uint32_t right,
			      struct mem_region **out_region);
/* Checks a further range for an access that has begun, with the same key and peer. Takes no lock
 * and no more references. Returns ERR_REMOTE_RIGHTS or ERR_REMOTE_RANGE. */
tcpx_status mem_region_access_more(const struct mem_region *region, uint64_t offset,
				   uint64_t length, uint32_t right);
void mem_region_access_end(struct mem_region *region); /* drops the references of an access */

/* Retires the region with this id: it refuses new accesses. *out_region then has a struct
 * reference, which the caller must drop. But if the region has several ids, only removes this id
 * and sets *out_region to NULL; accesses continue. May be called again on a retired region (after
 * ERR_BUSY, or from two threads at once). Returns ERR_STALE if no region has this id. */
tcpx_status mem_region_retire(struct mem_regions *regions, uint64_t id,
			      struct mem_region **out_region);
/* Waits until no access to the retired region runs. Returns ERR_BUSY if the deadline, an absolute
 * time, passes first. A negative deadline means none. */
tcpx_status mem_region_quiesce(struct mem_region *region, int64_t deadline_ns);
/* Removes the id and the keys of the region, and drops the table's reference. Does nothing if the
 * id is removed already. Called after mem_region_quiesce. */
void mem_region_remove(struct mem_regions *regions, uint64_t id);

uint32_t mem_regions_count(struct mem_regions *regions); /* number of ids */

#endif
