/* SPDX-License-Identifier: Apache-2.0 */
/* Sources in staged memory. Slices of their bytes are copied into blocks before channels need
 * them, and channels send from there. The core chooses the next slice (core/fill.c). A slice
 * exists until the last channel has sent its part of it. */
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

/* Deferred work on a link's staging. Under link.lock. */
struct link_prefill {
	struct list_node dropped, spent, deliveries; /* what prefill_flush() has to do */
	_Atomic bool due;
	bool pumping;
	int64_t begun_ns; /* when slices were begun last */
};

/* Begins all slices that may begin. No lock held. Any thread. */
void prefill_pump(struct engine_peer *peer);

/* The peer's request for data begins to arrive: rouses the device that the last such request
 * read. No lock held. */
void prefill_asked(struct engine_peer *peer);
/* Called by the core under link.lock: there are slices to fill; a job needs its slices no more. */
void prefill_hook_due(struct engine_peer *peer);
void prefill_hook_drop(struct engine_peer *peer, struct core_job *job);
/* Called under link.lock: the block is released, or the message committed, once the lock is
 * free. */
void prefill_spend(struct engine_peer *peer, struct stage_block *block);
void prefill_defer(struct engine_peer *peer, struct engine_stage *stage);
/* Called with link.lock free: does what the four functions above have left to do. */
void prefill_flush(struct engine_peer *peer);

/* Called under link.lock after core_tx_next(): the slices that hold the frame's payload, with a
 * reference each, and the payload as iovecs (room for CHAN_SLICES_MAX). 0: no slices hold it, so
 * the channel fills a slot itself. */
uint32_t prefill_claim(const struct core_tx *tx, struct prefill_slice **slices, struct iovec *iov);
void prefill_get(struct prefill_slice *slice); /* the caller holds a reference */
void prefill_put(struct prefill_slice *slice); /* no lock held */

/* A peer waits for staging memory: as long as one does, slices of other peers that are filled and
 * not sent for 100 ms are given up. Any thread, under any lock. */
void prefill_watch(void);
void prefill_init(struct engine_runtime *runtime);

#endif
