/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources in staged memory: slices of their bytes are copied into blocks ahead of the channels,
 * which send from there. The core says what is next (core/fill.c); a slice lives from then until
 * the last channel that sends of it is through.
 */
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

/* Of one link; its lock. */
struct link_prefill {
	struct list_node dropped, spent, deliveries; /* left for prefill_flush */
	_Atomic bool due;
	bool pumping;
};

/* Begins what may begin. No lock held. Any thread. */
void prefill_pump(struct engine_peer *peer);

/* From the core, under peer.lock: there is something to fill; a job needs no more. */
void prefill_hook_due(struct engine_peer *peer);
void prefill_hook_drop(struct engine_peer *peer, struct core_job *job);
/* peer.lock: a block that is given back, a message that is committed, when the lock is free. */
void prefill_spend(struct engine_peer *peer, struct stage_block *block);
void prefill_defer(struct engine_peer *peer, struct engine_stage *stage);
/* After peer.lock is free: does what the four asked for. */
void prefill_flush(struct engine_peer *peer);

/*
 * peer.lock, behind core_tx_next: the slices the frame lies in, with a reference each, and its
 * payload as iovecs (room for CHAN_SLICES_MAX). 0: it is not there; the channel fetches it itself.
 */
uint32_t prefill_claim(const struct core_tx *tx, struct prefill_slice **slices, struct iovec *iov);
void prefill_get(struct prefill_slice *slice); /* a reference is held */
void prefill_put(struct prefill_slice *slice); /* no lock held */

/* Somebody stands in line: what others had filled and do not send for 100 ms is given up, as long
 * as the line lasts. Any thread, any lock. */
void prefill_watch(void);
void prefill_init(struct engine_runtime *runtime);

#endif
