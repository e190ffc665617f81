/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging memory: for each staged kind, device and direction one pool of the process, allocated
 * when memory of that device is registered first. Slots are powers of two (buddy system), lowest
 * address first, so that the memory in use stays small and warm.
 *
 * Nobody holds more than half of a pool, and who gets nothing waits in line: whoever gives a slot
 * back asks mem_staging_offer for the next one and lets him try again. Those who can do without for
 * now are patient: they stand behind all others and take nothing while another stands in line.
 */
#ifndef MEM_STAGING_H
#define MEM_STAGING_H

#include <stdbool.h>

#include "base/list.h"
#include "mem/kind.h"

#define MEM_SLOT_MIN (4u << 10)
#define MEM_SLOT_MAX (4u << 20)

enum mem_direction { MEM_OUT = 0, MEM_IN = 1 }; /* filled and sent; received and committed */

struct mem_staging;

/* One who takes slots of one pool. Zeroed, then mem_stager_init. Its fields are the pool's. */
struct mem_stager {
	struct mem_staging *pool;
	struct list_node waiting;
	uint64_t held, want; /* bytes; what he stands in line for */
	bool patient;	     /* stands in line, behind the others */
};

/* Both pools of a device. ERR_NO_MEMORY; what slot_alloc says. Any thread, may be slow. */
tcpx_status mem_staging_open(const struct mem_kind *kind, uint32_t device);
/* Pools of which no slot is out are freed: the runtime ends. */
void mem_staging_stop(void);

/* Ordinary memory where a pool has none: page aligned; NULL. */
void *mem_spill_alloc(size_t bytes);

/* NULL: not open. */
struct mem_staging *mem_staging_get(enum tcpx_mem_kind kind, uint32_t device,
				    enum mem_direction direction);
void mem_stager_init(struct mem_stager *stager, struct mem_staging *pool);

/* A slot of bytes <= MEM_SLOT_MAX, or NULL. stager NULL: of the whole pool. out_lined not NULL: who
 * gets nothing stands in line now, by what he says of his patience this time; *out_lined says
 * whether he did not before. Any thread. */
void *mem_staging_take(struct mem_staging *pool, uint64_t bytes, struct mem_stager *stager,
		       bool patient, bool *out_lined);
void mem_staging_give(struct mem_staging *pool, void *slot, uint64_t bytes,
		      struct mem_stager *stager);
/* The first in line for whom there is a slot, out of the line now; NULL: nobody. */
struct mem_stager *mem_staging_offer(struct mem_staging *pool);
/* Somebody who is not patient stands in line, and what the stager holds would help: it is he
 * himself, or one who is within his half. stager NULL: what anybody else holds. */
bool mem_staging_short(struct mem_staging *pool, const struct mem_stager *stager);
uint64_t mem_stager_held(struct mem_stager *stager);
uint64_t mem_staging_used(struct mem_staging *pool); /* bytes of slots that are out */

#endif
