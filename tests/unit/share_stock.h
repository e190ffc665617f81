/* SPDX-License-Identifier: Apache-2.0 */
/* What the two sides of share_rig.h have open, before and after. */
#ifndef UNIT_SHARE_STOCK_H
#define UNIT_SHARE_STOCK_H

#include <sched.h>

#include "base/clock.h"
#include "share_rig.h"

#define STOCK_GUARD_NS (20 * CLOCK_S_NS) /* what is still open then, is left behind */
#define STOCK_LOOKS 1000		 /* so many equal ones in a row are rest */

/* What both processes have open and alive. */
struct stock {
	int live[2], descriptors[2];
};

static inline struct stock stock_of(struct share_pair *pair)
{
	return (struct stock){{(int)fake.live(NULL), far_asks(pair, 'l', 0)},
			      {(int)open_descriptors(), far_asks(pair, 'n', 0)}};
}

static inline bool stock_is(const struct stock *a, const struct stock *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Waits until neither process opens or closes anything any more. */
static inline struct stock stock_at_rest(struct share_pair *pair)
{
	struct stock rest = stock_of(pair);

	for (unsigned looks = 0; looks < STOCK_LOOKS; looks++) {
		struct stock now = stock_of(pair);

		if (!stock_is(&now, &rest)) {
			rest = now;
			looks = 0;
		}
	}
	return rest;
}

/* Waits until both processes have what `want` says. Threads of either side may still be closing
 * what the last transfer used. */
static inline void stock_same(struct share_pair *pair, const struct stock *want, const char *what)
{
	struct stock now;

	for (int64_t end_ns = clock_after(STOCK_GUARD_NS);;) {
		now = stock_of(pair);
		if (stock_is(&now, want))
			return;
		if (clock_now_ns() >= end_ns)
			break;
		sched_yield();
	}
	fail_msg("%s: left: near %d objects %d descriptors, far %d and %d", what,
		 now.live[0] - want->live[0], now.descriptors[0] - want->descriptors[0],
		 now.live[1] - want->live[1], now.descriptors[1] - want->descriptors[1]);
}

/* The query of the near side says why memory of one end is not mapped by the other. */
static inline void share_error_says(struct share_pair *pair, const char *what)
{
	tcpx_peer_info info = {.sz = sizeof(info)};

	assert_int_equal(tcpx_peer_query(pair->near.session, pair->near.peer, &info), TCPX_OK);
	if (*what ? !strstr(info.share_error, what) : *info.share_error)
		fail_msg("'%s' in '%s'", what, info.share_error);
}

/* Who waits for a small transfer receives by itself, and the session keeps a descriptor for it. */
static inline void wait_leading(struct share_pair *pair)
{
	assert_int_equal(share_part(pair, TCPX_OP_WRITE, 64), TCPX_OK);
}

#endif
