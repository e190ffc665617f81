/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging memory: one pool of the process for each staged kind, device and direction, opened with
 * its first 8 MiB when memory of that device is first registered. A thread allocates the rest right
 * after that. Slots are powers of two (buddy system), the same ones first, so that the memory in
 * use stays small and warm.
 *
 * A client holds at most half of a pool. A client that gets no slot waits in a queue: the thread
 * that returns a slot asks mem_staging_offer for the next client and lets it try again. Clients
 * that can do without for now are patient (low priority): they come after all others, and take
 * nothing while another one waits.
 */
#ifndef MEM_STAGING_H
#define MEM_STAGING_H

#include <stdbool.h>

#include "base/list.h"
#include "mem/kind.h"

#define MEM_SLOT_MIN (4u << 10)
#define MEM_SLOT_MAX (4u << 20)

enum mem_direction { MEM_OUT = 0, MEM_IN = 1 }; /* to send; received, to be committed */

struct mem_staging;

/* A client of one pool. Zeroed, then mem_stager_init. The pool owns its fields. */
struct mem_stager {
	struct mem_staging *pool;
	struct list_node waiting;
	uint64_t held, want; /* bytes held; bytes that it waits for */
	bool patient;	     /* waits with low priority */
};

/* Called by the thread that allocates after each growth of a pool: clients that wait may find a
 * slot (mem_staging_offer). Set before the first pool opens; NULL: nobody waits. */
extern void (*_Atomic mem_staging_grown)(struct mem_staging *pool);

/* Opens both pools of a device. ERR_NO_MEMORY; errors of slot_alloc. Any thread, may take some
 * milliseconds. */
tcpx_status mem_staging_open(const struct mem_kind *kind, uint32_t device);
/* Frees the pools that have no slot in use: the runtime ends. */
void mem_staging_stop(void);

/* Ordinary memory, page aligned, for when a pool has no slot; NULL: no memory. */
void *mem_spill_alloc(size_t bytes);

/* NULL: the pool is not open. */
struct mem_staging *mem_staging_get(enum tcpx_mem_kind kind, uint32_t device,
				    enum mem_direction direction);
/* Slots of the pool will be filled soon: see mem_kind.rouse. */
void mem_staging_rouse(const struct mem_staging *pool);
void mem_stager_init(struct mem_stager *stager, struct mem_staging *pool);

/* A slot of bytes <= MEM_SLOT_MAX, or NULL. stager NULL: without the limit of half a pool. With
 * out_lined, a client that gets nothing is queued, with the priority of this call; *out_lined: it
 * was not queued before. Any thread. */
void *mem_staging_take(struct mem_staging *pool, uint64_t bytes, struct mem_stager *stager,
		       bool patient, bool *out_lined);
void mem_staging_give(struct mem_staging *pool, void *slot, uint64_t bytes,
		      struct mem_stager *stager);
/* The first waiting client for which there is a slot, removed from the queue; NULL: none. */
struct mem_stager *mem_staging_offer(struct mem_staging *pool);
/* Whether a client that is not patient waits, and slots that the stager holds would help it: it is
 * the stager itself, or a client below its half. stager NULL: slots of any other client. */
bool mem_staging_short(struct mem_staging *pool, const struct mem_stager *stager);
uint64_t mem_stager_held(struct mem_stager *stager);
uint64_t mem_staging_used(struct mem_staging *pool); /* bytes of slots in use */

#endif
