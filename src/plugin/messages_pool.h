/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much may be posted into a page pool that all channels of a GPU share.
 *
 * A plugin fills the pages of several messages at once. When a pool has fewer pages than the posted
 * receives need, each of them holds some and none is ever complete; a receive that is posted cannot
 * be taken back. The size of the pool is not known: the driver tells how large its memory is, not
 * how many of its pages are left for this process.
 *
 * So the receives that are posted and not done need at most as many pages as the pool is known to
 * have: the number of different pages that fragments were seen in. Whatever else is out belongs to
 * messages that are done, and comes back when they are copied out. One receive may always be
 * posted; the bound grows with the pages that it and the ones after it show.
 *
 * Thread rule: any thread; a user belongs to the driver of its channel.
 */
#ifndef PLUGIN_MESSAGES_POOL_H
#define PLUGIN_MESSAGES_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "base/frag.h"
#include "base/list.h"

#define MESSAGES_POOL_PAGE 4096u

struct messages_pool;

/* A channel that receives into a pool. */
struct messages_pool_user {
	struct messages_pool *pool;
	struct list_node turn; /* of those that wait for room */
	int64_t asked_ns;      /* the last time that it asked */
	uint64_t full_bytes;   /* of all that it ever posts at once */
	uint64_t posted;       /* pages of its receives that are not done */
	bool stuck;	       /* they are not counted: nothing has come for long */
};

/* Joins the pool at that address. ERR_NO_MEMORY. */
tcpx_status messages_pool_join(struct messages_pool_user *user, uint64_t at, uint64_t bytes,
			       uint64_t full_bytes) TCPX_MUST_CHECK;
void messages_pool_leave(struct messages_pool_user *user); /* not joined: nothing */

/* The pages of a receive of so many bytes, which may be posted now; 0: later. */
uint64_t messages_pool_take(struct messages_pool_user *user, uint64_t bytes, int64_t now_ns);
/* It was not posted after all. */
void messages_pool_untake(struct messages_pool_user *user, uint64_t pages);
/* It is done, and came in these fragments. */
void messages_pool_done(struct messages_pool_user *user, uint64_t pages, uint64_t bytes,
			const struct base_frag *frags, uint64_t nfrags, int64_t now_ns);
/* Nothing came for the user's oldest receive for after_ns: it no longer keeps others from posting,
 * and what is known of the pool is forgotten when nobody else received anything either. */
void messages_pool_stuck(struct messages_pool_user *user, int64_t now_ns, int64_t after_ns);

struct messages_pool_info {
	uint64_t known;	 /* pages that were seen */
	uint64_t posted; /* pages of receives that are not done, of all users that are not stuck */
	uint64_t need;	 /* pages of a message of the size asked for */
};
void messages_pool_info(const struct messages_pool_user *user, uint64_t bytes,
			struct messages_pool_info *out_info);

#endif
