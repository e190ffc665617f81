/* SPDX-License-Identifier: Apache-2.0 */
/* Our end of a link for the stateful target: the engine's duties, done at once and checked. */
#ifndef FUZZ_LINK_WORLD_H
#define FUZZ_LINK_WORLD_H

#include "core/link.h"
#include "target.h"

#define WORLD_CHANNELS 3 /* the priority channel and two bulk channels */
#define WORLD_XFERS 8
#define WORLD_LATER 64	      /* commits and deliveries under way */
#define WORLD_POOL (1u << 20) /* staging */
#define WORLD_CREDIT (64u << 10)
#define WORLD_COVER (16u << 10) /* of the credit for notifications, unasked */
#define WORLD_READS 4

/* One request of ours. It is freed while final, so that a sanitizer sees a late use. */
struct world_xfer {
	struct core_xfer x;
	struct core_segs segs;
	struct core_seg seg[4];
	uint64_t remote[1];
	void *local[1];
	bool active;
};

/* Something that ends later, as the memory kinds do. */
struct world_later {
	bool used, deliver;
	uint32_t channel, epoch;
	uint64_t seq, id, bytes, staged;
	struct core_xfer *recv;
};

struct world_rx {
	bool busy, scratch;
	struct frame frame;
	struct core_rx rx;
};

struct world_tx {
	bool busy, aborted;
	struct core_tx tx;
	struct world_xfer *xfer; /* whose memory it reads */
};

struct world {
	struct core_link link;
	struct world_xfer *xfers[WORLD_XFERS];
	struct world_later later[WORLD_LATER];
	struct world_rx rx[WORLD_CHANNELS];
	struct world_tx tx[WORLD_CHANNELS];
	uint32_t epoch[WORLD_CHANNELS];
	bool must_close[WORLD_CHANNELS];
	uint64_t pool;	 /* staging not taken */
	uint64_t memory; /* allocated by the core */
	uint64_t taken;	 /* set aside for notifications beyond the cover */
	uint32_t takes;
	uint64_t unread; /* bytes of notifications not consumed */
	uint32_t notes;	 /* how many */
	uint32_t resps;	 /* alive */
	bool no_memory;	 /* the next allocation fails */
	bool failed;
	tcpx_status why;
};

void world_open(struct world *w);
/* Ends everything and checks that nothing is left. */
void world_close(struct world *w);

/* After each call into the core: what the operations asked for but must not do themselves. */
void world_settle(struct world *w);
void world_fail(struct world *w, tcpx_status status);

void world_post(struct world *w, uint32_t slot, enum tcpx_op op, uint32_t total, uint32_t flags);
void world_release(struct world *w, uint32_t slot);
void world_lost(struct world *w, uint32_t channel);
struct world_later *world_later_new(struct world *w);
void world_later_end(struct world *w, uint32_t index, tcpx_status status);
void world_push(struct world *w, const struct frame *frame);

#endif
