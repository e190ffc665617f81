/* SPDX-License-Identifier: Apache-2.0 */
/* Sources in staged memory. Parts of them, called slices, are copied into blocks before channels
 * need the bytes; channels send from the blocks. The core chooses the next slice (core/fill.c). A
 * slice exists until the last channel has sent its part of the slice, and longer while it is pinned
 * (hold.h). */
#ifndef ENGINE_LINK_PREFILL_H
#define ENGINE_LINK_PREFILL_H

#include <stdatomic.h>
#include <sys/uio.h>

#include "engine/link/block.h"

struct core_job;
struct core_tx;
struct engine_runtime;
struct engine_stage;
struct prefill_slice;

/* Deferred work on the staging memory of a link. Guarded by link.lock. */
struct link_prefill {
	/* slices and blocks to release, deliveries to start: prefill_flush() */
	struct list_node dropped, spent, deliveries;
	_Atomic bool due; /* prefill_flush() has something to do */
	bool pumping;	  /* a thread is in prefill_pump() */
	int64_t begun_ns; /* when slices were last begun */
};

/* Begins the copies of all slices that may begin now. Called by any thread, with no lock held. */
void prefill_pump(struct engine_peer *peer);

/* Called with no lock held when a READ_REQ of the peer begins to arrive. Wakes a device whose
 * memory is sent to this peer, because the memory will be read soon. Of several devices, wakes the
 * one that this peer began to use last. */
void prefill_asked(struct engine_peer *peer);
/* Called under link.lock by the core; prefill_hook_due() also by hold.c. prefill_hook_due(): there
 * may be slices to fill or ended pins to release. prefill_hook_drop(): the job no longer needs its
 * present slices. */
void prefill_hook_due(struct engine_peer *peer);
void prefill_hook_drop(struct engine_peer *peer, struct core_job *job);
/* Called under link.lock, for work that is done when the lock is free. prefill_spend() lets the
 * block be released. prefill_defer() lets the copies of `stage` start: those of an eager SEND to
 * its RECV, or of a request that this end copies itself (path/direct.h). */
void prefill_spend(struct engine_peer *peer, struct stage_block *block);
void prefill_defer(struct engine_peer *peer, struct engine_stage *stage);
/* Called with no lock held. Does the work that prefill_hook_due(), prefill_hook_drop(),
 * prefill_spend() and prefill_defer() have left, and releases pins that have ended. */
void prefill_flush(struct engine_peer *peer);

/* Called under link.lock after core_tx_next(). Stores the slices that hold the frame's payload,
 * with a reference to each, and the payload as iovecs. Both arrays have room for CHAN_SLICES_MAX
 * entries. Returns the number of slices, or 0 if no slices hold the payload, or too many do; the
 * channel must then fill a slot itself. */
uint32_t prefill_claim(const struct core_tx *tx, struct prefill_slice **slices, struct iovec *iov);
void prefill_get(struct prefill_slice *slice); /* the caller holds a reference already */
void prefill_put(struct prefill_slice *slice); /* called with no lock held */

/* Called by any thread, under any lock, when an urgent fill has begun to wait for staging memory.
 * While it waits, filled slices that are not sent for 100 ms are given up. */
void prefill_watch(void);
void prefill_init(struct engine_runtime *runtime);

#endif
