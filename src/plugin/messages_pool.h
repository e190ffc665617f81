/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits how many receives are posted into a page pool: the bounce pages of a GPU, which all
 * channels that receive through the GPU share.
 *
 * A plugin fills the pages of several messages at once. If the pool has fewer pages than the posted
 * receives need, it may happen that each receive holds some pages and none completes. A posted
 * receive cannot be taken back. How many pages are left for this process is not known, because the
 * driver reports only the size of the pool's memory.
 *
 * So the receives that are posted and not done may together need at most as many pages as are
 * known: the number of different pages in which fragments were seen. A known page that none of
 * these receives holds is free, or becomes free when the done message to which it belongs is
 * copied out. One receive may always be posted, so new pages are seen and the limit grows.
 *
 * Threads: threads may call at the same time for different users. After the user has joined, all
 * calls for the user are made by the thread that drives its channel's comms, or by the thread that
 * closes the channel.
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

/* A channel that receives into a page pool. */
struct messages_pool_user {
	struct messages_pool *pool;
	struct list_node turn; /* in pool->turns while the user waits for pages */
	int64_t asked_ns;      /* time of its last messages_pool_take */
	uint64_t full_bytes;   /* most bytes that the user may have posted at once */
	uint64_t posted;       /* pages of its receives that are not done */
	/* set by messages_pool_stuck(): messages_pool.posted leaves out this user's pages */
	bool stuck;
};

/* Joins the page pool that has that address and size. If the user is the first, makes the struct
 * messages_pool. `full_bytes` is the most bytes that the user may have posted at a time. Returns OK
 * or ERR_NO_MEMORY. */
tcpx_status messages_pool_join(struct messages_pool_user *user, uint64_t at, uint64_t bytes,
			       uint64_t full_bytes) TCPX_MUST_CHECK;
void messages_pool_leave(struct messages_pool_user *user); /* does nothing if user has not joined */

/* Reserves pages for a receive of that many bytes. Returns the number of pages if the receive may
 * be posted now. Otherwise returns 0; the user then waits for its turn, and must call again. */
uint64_t messages_pool_take(struct messages_pool_user *user, uint64_t bytes, int64_t now_ns);
/* Gives back the pages that were reserved for a receive that could not be posted. */
void messages_pool_untake(struct messages_pool_user *user, uint64_t pages);
/* Reports that a receive is done. `pages` were reserved for it, `bytes` is the length of its
 * message, and `frags` are the fragments in which the message arrived. */
void messages_pool_done(struct messages_pool_user *user, uint64_t pages, uint64_t bytes,
			const struct base_frag *frags, uint64_t nfrags, int64_t now_ns);
/* Reports that none of the user's posted receives was done in the last `after_ns`. Until one is
 * done, the user gets no pages, and its posted receives do not count towards the limit. If no
 * receive of any user was done in that time, the number of known pages is reset to 0. */
void messages_pool_stuck(struct messages_pool_user *user, int64_t now_ns, int64_t after_ns);

struct messages_pool_info {
	uint64_t known;	 /* different pages seen so far */
	uint64_t posted; /* pages of receives that are not done, of users that are not stuck */
	uint64_t need;	 /* pages that a message of the given size needs */
};
void messages_pool_info(const struct messages_pool_user *user, uint64_t bytes,
			struct messages_pool_info *out_info);

#endif
