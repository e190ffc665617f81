/* SPDX-License-Identifier: Apache-2.0 */
/* Sources in staged memory. Slices of them are copied into blocks before channels need the bytes,
 * and channels send from there. The core chooses the next slice (core/fill.c). A slice exists until
 * the last channel has sent its part of it. */
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
	struct list_node dropped, spent, deliveries; /* what prefill_flush() releases or starts */
	_Atomic bool due;			     /* prefill_flush() has something to do */
	bool pumping;				     /* a thread is in prefill_pump() */
	int64_t begun_ns;			     /* when slices were begun last */
};

/* Begins the copies of all slices that may begin now. No lock held. Any thread. */
void prefill_pump(struct engine_peer *peer);

/* A READ_REQ of the peer begins to arrive: wakes a device whose memory is sent to this peer,
 * because it will be read soon; of several devices, the one that this peer began to use last. No
 * lock held. */
void prefill_asked(struct engine_peer *peer);
/* Called by the core under link.lock. due: there may be slices to fill. drop: the job needs its
 * present slices no more. */
void prefill_hook_due(struct engine_peer *peer);
void prefill_hook_drop(struct engine_peer *peer, struct core_job *job);
/* Called under link.lock. spend: the block is released once the lock is free. defer: the eager
 * message is copied to its RECV once the lock is free. */
void prefill_spend(struct engine_peer *peer, struct stage_block *block);
void prefill_defer(struct engine_peer *peer, struct engine_stage *stage);
/* Called with link.lock free: does what prefill_hook_due(), prefill_hook_drop(), prefill_spend()
 * and prefill_defer() have left to do, and releases pins that have ended. */
void prefill_flush(struct engine_peer *peer);

/* Called under link.lock after core_tx_next(): the slices that hold the frame's payload, with a
 * reference each, and the payload as iovecs (room for CHAN_SLICES_MAX). 0: no slices hold it, so
 * the channel fills a slot itself. */
uint32_t prefill_claim(const struct core_tx *tx, struct prefill_slice **slices, struct iovec *iov);
void prefill_get(struct prefill_slice *slice); /* the caller holds a reference */
void prefill_put(struct prefill_slice *slice); /* no lock held */

/* A peer has begun to wait for staging memory. As long as one waits, slices of other peers that are
 * filled and were not sent for 100 ms are given up. Any thread, under any lock. */
void prefill_watch(void);
void prefill_init(struct engine_runtime *runtime);

#endif
