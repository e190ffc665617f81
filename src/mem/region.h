/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Region table of a session. A region is found by id (our own calls) or by key (a peer's access,
 * checked for rights and range at each access). An access under way holds an io reference; retiring
 * a region refuses new accesses, and it is quiesced when the last io reference is gone. Memory of
 * the struct lives until the last of all references.
 */
#ifndef MEM_REGION_H
#define MEM_REGION_H

#include <stdint.h>

#include "mem/kind.h"
#include <tcpx/memory.h>

#define MEM_PEER_BYTES 32	 /* of a public key */
#define MEM_BOUND_MAX (1u << 20) /* keys of one table that are bound to peers */

struct mem_region;

/* What peers name a region by. Constant, but for the table's own link. */
struct mem_key {
	struct mem_key *next_same_bucket; /* the table's lock */
	struct mem_region *region;
	uint64_t key;	     /* never 0 */
	const uint8_t *peer; /* whom it serves: who proved that public key; NULL: everybody */
};

struct mem_region {
	const struct mem_kind *kind;
	uint8_t *base;
	uint64_t length;
	uint32_t device, rights, flags;
	uint64_t serial;       /* of this process, names it to peers that share it; no secret */
	uint64_t memory_id;    /* of the allocation, from the kind's probe; 0: none */
	struct mem_key own;    /* bound to nobody */
	_Atomic uint32_t io;   /* accesses under way */
	_Atomic uint32_t refs; /* keeps the struct alive */
	_Atomic int retired;
	_Atomic uint32_t traits; /* enum mem_traits, as its mappings were when last looked at */
	_Atomic uint32_t cover;	 /* enum mem_cover, of GPU memory where a plugin carries it */
	uint32_t ids;		 /* registrations of it; the table's lock */
	struct bound_key *bound; /* its keys for one peer each; the table's lock */
};

/* What can be done to the memory by the CPU, and whether its pages may go. */
enum mem_traits {
	MEM_CAN_READ = 1u << 0,
	MEM_CAN_WRITE = 1u << 1,
	MEM_MAY_VANISH = 1u << 2, /* it is a file's: only the kernel may copy it */
};

/* May a plugin have the whole pages around the memory? */
enum mem_cover { MEM_COVER_UNASKED = 0, MEM_COVER_GIVEN, MEM_COVER_REFUSED };

struct mem_regions;

/* Keys are SipHash(secret; address, length, device, rights, salt), salt = generation, 0 for STABLE;
 * bound ones SipHash(secret; the region's own key, the peer's public key). The secret is made here
 * and never leaves the table: the session's own secret is in its connection info, so a key that is
 * made of it could be computed by every peer. ERR_NO_MEMORY, ERR_SYSTEM (no random bytes). */
tcpx_status mem_regions_create(struct mem_regions **out_regions);
/* Regions that others still hold live on until their last mem_region_put. */
void mem_regions_destroy(struct mem_regions *regions);

/* opts NULL: host, local use only. ERR_INVALID (NULL, zero, wrap-around, unknown right or flag, a
 * right that the mapping does not have), ERR_UNSUPPORTED (kind), what the kind's probe says,
 * ERR_NO_MEMORY, ERR_LIMIT. The id: index and generation, never 0, bit 63 clear. A STABLE duplicate
 * is one more id of the same region. */
tcpx_status mem_region_add(struct mem_regions *regions, void *addr, uint64_t length,
			   const tcpx_region_opts *opts, uint64_t *out_id);

/* Is the memory still the allocation that was registered? An error: ERR_STALE. */
tcpx_status mem_region_same(const struct mem_region *region);

/* May we do to the memory what traits say? Where it could not when it was last looked at, its
 * mappings are looked at again. ERR_INVALID: no; the last error has the address. */
tcpx_status mem_region_allows(struct mem_region *region, uint32_t traits);

static inline int mem_region_vanishes(const struct mem_region *region)
{
	return (atomic_load_explicit(&region->traits, memory_order_relaxed) & MEM_MAY_VANISH) != 0;
}

/* What a registration asks for and what the memory is: fills all of region that comes from that. */
tcpx_status mem_region_check(void *addr, uint64_t length, const tcpx_region_opts *opts,
			     struct mem_region *region);

/* The region with a struct reference, or NULL when stale or retired. */
struct mem_region *mem_region_get(struct mem_regions *regions, uint64_t id);
void mem_region_put(struct mem_region *region);
void mem_region_hold(struct mem_region *region); /* one more, for who has one */

/* An io reference; 0 when retired meanwhile. Lock-free. The caller holds a struct reference until
 * after its mem_region_io_put. */
int mem_region_io_get(struct mem_region *region);
/* Gives it back; the last one of a retired region wakes whoever waits. Lock-free otherwise. */
void mem_region_io_put(struct mem_region *region);

/* The region's key for who proves that public key, MEM_PEER_BYTES long: the same one each time. It
 * dies with the region. ERR_STALE (retired), ERR_LIMIT (MEM_BOUND_MAX), ERR_NO_MEMORY. */
tcpx_status mem_region_bind(struct mem_regions *regions, struct mem_region *region,
			    const uint8_t *peer, uint64_t *out_key);

/* A peer's access: TCPX_OK with an io and a struct reference; ERR_REMOTE_KEY, ERR_REMOTE_RIGHTS,
 * ERR_REMOTE_RANGE (overflow-safe). peer: the public key that it proved; NULL: none. A key that is
 * bound to another peer is an unknown key. */
tcpx_status mem_region_access(struct mem_regions *regions, const uint8_t *peer, uint64_t key,
			      uint64_t offset, uint64_t length, uint32_t right,
			      struct mem_region **out_region);
/* The same for a further range by the same key and the same peer, while the caller's access is
 * under way; without a lock, and without further references. */
tcpx_status mem_region_access_more(const struct mem_region *region, uint64_t offset,
				   uint64_t length, uint32_t right);
void mem_region_access_end(struct mem_region *region); /* io_put + put */

/* No new accesses. *out_region comes with a struct reference, to be put by the caller whatever
 * follows; NULL: the id was one of several of its region and is forgotten, accesses go on. Again
 * on a retired one is legal (after ERR_BUSY, or from two threads at once). ERR_STALE when it is
 * already gone. */
tcpx_status mem_region_retire(struct mem_regions *regions, uint64_t id,
			      struct mem_region **out_region);
/* Waits until io is 0, at most until the absolute deadline (< 0: for ever): TCPX_OK or ERR_BUSY. */
tcpx_status mem_region_quiesce(struct mem_region *region, int64_t deadline_ns);
/* After quiesce: forgets the id and drops the table's reference; idempotent. */
void mem_region_remove(struct mem_regions *regions, uint64_t id);

uint32_t mem_regions_count(struct mem_regions *regions);

#endif
