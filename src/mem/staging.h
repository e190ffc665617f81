/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging memory: one pool of the process for each staged kind, device and direction, opened with
 * its first 8 MiB when memory of that device is first registered. A thread allocates the rest right
 * after that. Slot sizes are powers of two (buddy system). The lowest free slot is taken first, so
 * that the memory in use stays small and in the caches.
 *
 * A client holds at most half of a pool. A client that gets no slot waits in a queue: the thread
 * that returns a slot asks mem_staging_offer for the next client and lets it try again. Clients
 * that can go on without a slot are patient (low priority): they come after all others, and take
 * nothing while a client that is not patient waits.
 */
#ifndef MEM_STAGING_H
#define MEM_STAGING_H

#include <stdbool.h>

#include "base/list.h"
#include "mem/kind.h"

#define MEM_SLOT_MIN (4u << 10)
#define MEM_SLOT_MAX (4u << 20)

enum mem_direction { MEM_OUT = 0, MEM_IN = 1 }; /* data to send; received data to commit */

struct mem_staging;

/* A client of one pool: zeroed, then passed to mem_stager_init. Only functions of this file access
 * its fields. */
struct mem_stager {
	struct mem_staging *pool;
	struct list_node waiting;
	uint64_t held, want; /* bytes held; bytes that it waits for */
	bool patient;	     /* waits with low priority */
};

/* Called after each growth of a pool, by the thread that allocates, because waiting clients may
 * get a slot now (mem_staging_offer). Set before the first pool opens. NULL: no call. */
extern void (*_Atomic mem_staging_grown)(struct mem_staging *pool);

/* Opens the pools of a device that are not open yet, one per direction. ERR_NO_MEMORY (also: no
 * memory can be pinned), ERR_LIMIT (device number; threads), ERR_SYSTEM. Any thread, may take some
 * milliseconds. */
tcpx_status mem_staging_open(const struct mem_kind *kind, uint32_t device);
/* Ends the thread that allocates and frees the pools that have no slot in use. Called when the
 * runtime ends. */
void mem_staging_stop(void);

/* Ordinary memory, page aligned, for a caller that gets no slot of a pool; NULL: no memory. */
void *mem_spill_alloc(size_t bytes);

/* Returns the pool of a device and direction; NULL: it is not open. */
struct mem_staging *mem_staging_get(enum tcpx_mem_kind kind, uint32_t device,
				    enum mem_direction direction);
/* Announces that slots of the pool will be filled within a millisecond: see mem_kind.rouse. */
void mem_staging_rouse(const struct mem_staging *pool);
void mem_stager_init(struct mem_stager *stager, struct mem_staging *pool);

/* Takes a slot for bytes <= MEM_SLOT_MAX; NULL: none is available to the client. stager NULL: the
 * caller is no client, so the limit of half a pool does not apply. If out_lined is not NULL, a
 * client that gets no slot is queued, with the priority that patient says; *out_lined: it was not
 * queued before. Any thread. */
void *mem_staging_take(struct mem_staging *pool, uint64_t bytes, struct mem_stager *stager,
		       bool patient, bool *out_lined);
/* Returns a slot that mem_staging_take gave for this many bytes and this client. Wakes no client:
 * see mem_staging_offer. */
void mem_staging_give(struct mem_staging *pool, void *slot, uint64_t bytes,
		      struct mem_stager *stager);
/* Removes and returns the first waiting client for which there is a slot now, so that the caller
 * lets it try again; NULL: none. Patient clients are considered only if no other waits. */
struct mem_stager *mem_staging_offer(struct mem_staging *pool);
/* Whether slots that the stager returns would help a client that waits and is not patient: the
 * stager itself, or a client that may take a slot without exceeding half of the pool. stager NULL:
 * slots of any client. */
bool mem_staging_short(struct mem_staging *pool, const struct mem_stager *stager);
uint64_t mem_stager_held(struct mem_stager *stager); /* bytes of slots that it holds */
uint64_t mem_staging_used(struct mem_staging *pool); /* bytes of slots in use */

#endif
