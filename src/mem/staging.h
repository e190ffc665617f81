/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging memory. The process has one pool for each staged kind, device and direction. A pool is
 * opened with its first 4 MiB when memory of the device is first registered. Then a thread
 * allocates the pool's other parts, when no memory is being registered. Slot sizes are powers of
 * two (buddy system). Of the free slots of a size, the one with the lowest offset is taken, so that
 * the memory in use stays small and in the caches.
 *
 * A client holds at most half of a pool. A client that gets no slot waits in a queue. A thread that
 * returns a slot asks mem_staging_offer for the next client, and lets this client try again.
 * Clients that can do without a slot are patient (low priority): they come after all others, and
 * take no slot while a client that is not patient waits.
 */
#ifndef MEM_STAGING_H
#define MEM_STAGING_H

#include <stdbool.h>

#include "base/list.h"
#include "mem/kind.h"

#define MEM_SLOT_MIN (4u << 10)
#define MEM_SLOT_MAX (4u << 20)

enum mem_direction { MEM_OUT = 0, MEM_IN = 1 }; /* OUT: data to send; IN: received data to commit */

struct mem_staging;

/* A client of one pool. mem_stager_init sets all fields; only staging.c changes them. */
struct mem_stager {
	struct mem_staging *pool;
	struct list_node waiting;
	uint64_t held, want; /* bytes of slots held; size of the slot that the client waits for */
	bool patient;	     /* whether the client waits with low priority */
};

/* If not NULL, the thread that adds parts calls it after each growth of a pool, because waiting
 * clients may get a slot then (mem_staging_offer). Must be set before the first pool opens. */
extern void (*_Atomic mem_staging_grown)(struct mem_staging *pool);

/* How long no memory may have been registered before the thread adds a part. Tests change it. */
extern _Atomic int64_t mem_staging_quiet_ns;

/* Opens the pools of a device, one per direction, if they are not open yet. Returns ERR_NO_MEMORY
 * (also if no memory can be pinned), ERR_LIMIT (device number, threads) or ERR_SYSTEM. Any thread;
 * may take some milliseconds. */
tcpx_status mem_staging_open(const struct mem_kind *kind, uint32_t device);
/* Ends the thread that adds parts, and frees the pools that have no slot in use. Called when the
 * runtime ends. */
void mem_staging_stop(void);

/* Allocates ordinary memory, aligned to MEM_SLOT_MIN, for a caller that gets no slot of a pool. The
 * caller frees it with free(). Returns NULL if there is no memory. */
void *mem_spill_alloc(size_t bytes);

/* Returns the pool of a kind, device and direction, or NULL if it is not open. */
struct mem_staging *mem_staging_get(enum tcpx_mem_kind kind, uint32_t device,
				    enum mem_direction direction);
/* Announces that slots of the pool will be filled within a millisecond: see mem_kind.rouse. */
void mem_staging_rouse(const struct mem_staging *pool);
void mem_stager_init(struct mem_stager *stager, struct mem_staging *pool);

/* Takes a slot for `bytes` bytes, at most MEM_SLOT_MAX. Returns NULL if the client can get none. If
 * `stager` is NULL, the caller is not a client: the limit of half a pool does not apply, and
 * `out_lined` must be NULL. If `out_lined` is not NULL, a client that gets no slot is queued, with
 * low priority if `patient` is set; *out_lined is then false if the client was queued already. Any
 * thread. */
void *mem_staging_take(struct mem_staging *pool, uint64_t bytes, struct mem_stager *stager,
		       bool patient, bool *out_lined);
/* Returns a slot to the pool. `bytes` and `stager` must be those of mem_staging_take. Wakes no
 * client: see mem_staging_offer. */
void mem_staging_give(struct mem_staging *pool, void *slot, uint64_t bytes,
		      struct mem_stager *stager);
/* Returns the first waiting client for which a slot is free, and removes it from its queue. The
 * caller must let the client try again. Returns NULL if there is no such client. Patient clients
 * are considered only while all waiting clients are patient. */
struct mem_stager *mem_staging_offer(struct mem_staging *pool);
/* Whether slots that `stager` returns could help a client that waits and is not patient. They could
 * help `stager` itself, if it is such a client. They could help another such client if it would
 * hold at most half of the pool with the slot for which it waits. `stager` may be NULL. */
bool mem_staging_short(struct mem_staging *pool, const struct mem_stager *stager);
uint64_t mem_stager_held(struct mem_stager *stager); /* bytes of slots that the client holds */
uint64_t mem_staging_used(struct mem_staging *pool); /* bytes of slots in use */

#endif
