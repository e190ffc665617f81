/* SPDX-License-Identifier: Apache-2.0 */
/* Limits how many receives are posted into a page pool. All channels of a GPU share the pool. */
#include "plugin/messages_pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

/* A user that has not asked for pages for this time keeps no other user waiting. */
#define SILENT_NS (10 * CLOCK_MS_NS)
#define WORD_BITS 64u

struct messages_pool {
	struct list_node node; /* in the list `pools`; pools_lock guards `node` and `refs` */
	uint64_t at, bytes;
	unsigned refs;
	pthread_mutex_t lock;	/* guards the members below */
	struct list_node turns; /* users that wait for pages, longest wait first */
	uint64_t *seen;		/* one bit per page, set if a fragment was seen in the page */
	/* known: number of bits set in `seen`; posted: pages reserved for receives that are not
	 * done, of users that are not stuck; full_bytes: sum over all users */
	uint64_t known, posted, full_bytes;
	/* fragments and bytes of the message with the most fragments per byte, small messages not
	 * considered; a page is counted for each fragment */
	uint64_t worst_pages, worst_bytes;
	int64_t done_ns; /* when the last message was done */
};

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list_node pools = {&pools, &pools};

static uint64_t pool_pages(const struct messages_pool *pool)
{
	return (pool->bytes + MESSAGES_POOL_PAGE - 1) / MESSAGES_POOL_PAGE;
}

static struct messages_pool *messages_pool_new(uint64_t at, uint64_t bytes)
{
	struct messages_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->at = at;
	pool->bytes = bytes;
	pool->seen = calloc((pool_pages(pool) + WORD_BITS - 1) / WORD_BITS, sizeof(*pool->seen));
	if (!pool->seen) {
		free(pool);
		return NULL;
	}
	pool->worst_pages = 1;
	pool->worst_bytes = MESSAGES_POOL_PAGE;
	pthread_mutex_init(&pool->lock, NULL);
	list_init(&pool->turns);
	list_push_back(&pools, &pool->node);
	return pool;
}

static struct messages_pool *messages_pool_find(uint64_t at, uint64_t bytes)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &pools) {
		struct messages_pool *pool = LIST_ENTRY(pos, struct messages_pool, node);

		if (pool->at == at && pool->bytes == bytes)
			return pool;
	}
	return NULL;
}

tcpx_status messages_pool_join(struct messages_pool_user *user, uint64_t at, uint64_t bytes,
			       uint64_t full_bytes)
{
	struct messages_pool *pool;

	pthread_mutex_lock(&pools_lock);
	pool = messages_pool_find(at, bytes);
	if (!pool)
		pool = messages_pool_new(at, bytes);
	if (pool)
		pool->refs++;
	pthread_mutex_unlock(&pools_lock);
	if (!pool)
		return error_set(TCPX_ERR_NO_MEMORY, 0,
				 "no memory for the page table of a pool of %llu bytes",
				 (unsigned long long)bytes);
	*user = (struct messages_pool_user){.pool = pool, .full_bytes = full_bytes};
	list_init(&user->turn);
	pthread_mutex_lock(&pool->lock);
	pool->full_bytes += full_bytes;
	pthread_mutex_unlock(&pool->lock);
	return TCPX_OK;
}

void messages_pool_leave(struct messages_pool_user *user)
{
	struct messages_pool *pool = user->pool;
	bool last;

	if (!pool)
		return;
	user->pool = NULL;
	pthread_mutex_lock(&pool->lock);
	list_remove(&user->turn);
	pool->full_bytes -= user->full_bytes;
	if (!user->stuck)
		pool->posted -= user->posted;
	pthread_mutex_unlock(&pool->lock);
	pthread_mutex_lock(&pools_lock);
	last = !--pool->refs;
	if (last)
		list_remove(&pool->node);
	pthread_mutex_unlock(&pools_lock);
	if (!last)
		return;
	pthread_mutex_destroy(&pool->lock);
	free(pool->seen);
	free(pool);
}

/* Returns the number of pages that a message of that size needs if it has as many fragments per
 * byte as the worst message seen so far. */
static uint64_t pool_pages_needed(const struct messages_pool *pool, uint64_t bytes)
{
	return (bytes * pool->worst_pages + pool->worst_bytes - 1) / pool->worst_bytes;
}

/* Whether it is the user's turn: no other user that still asks for pages has waited longer. Stuck
 * users do not count, because they get no pages. */
static bool pool_is_next(const struct messages_pool *pool, const struct messages_pool_user *user,
			 int64_t now_ns)
{
	const struct list_node *pos;

	LIST_FOREACH(pos, &pool->turns) {
		const struct messages_pool_user *other =
			LIST_ENTRY(pos, struct messages_pool_user, turn);

		if (other == user)
			return true;
		if (!other->stuck && now_ns - other->asked_ns < SILENT_NS)
			return false;
	}
	return true;
}

uint64_t messages_pool_take(struct messages_pool_user *user, uint64_t bytes, int64_t now_ns)
{
	struct messages_pool *pool = user->pool;
	uint64_t pages;

	pthread_mutex_lock(&pool->lock);
	pages = pool_pages_needed(pool, bytes);
	user->asked_ns = now_ns;
	if (!user->stuck && pool_is_next(pool, user, now_ns) &&
	    (!pool->posted || pool->posted + pages <= pool->known)) {
		list_remove(&user->turn);
		pool->posted += pages;
		user->posted += pages;
	} else {
		if (list_empty(&user->turn))
			list_push_back(&pool->turns, &user->turn);
		pages = 0;
	}
	pthread_mutex_unlock(&pool->lock);
	return pages;
}

/* Ends the reservation of pages for a receive. Marks the user as not stuck. Called under
 * pool->lock. */
static void pool_give_back(struct messages_pool_user *user, uint64_t pages)
{
	if (user->stuck) { /* pool->posted counts the user's pages again */
		user->stuck = false;
		user->pool->posted += user->posted;
	}
	user->pool->posted -= pages;
	user->posted -= pages;
}

void messages_pool_untake(struct messages_pool_user *user, uint64_t pages)
{
	pthread_mutex_lock(&user->pool->lock);
	pool_give_back(user, pages);
	pthread_mutex_unlock(&user->pool->lock);
}

/* Marks the pages in which the fragments lie as seen. */
static void pool_look_at(struct messages_pool *pool, const struct base_frag *frags, uint64_t nfrags)
{
	for (uint64_t i = 0; i < nfrags; i++) {
		uint64_t page = frags[i].src / MESSAGES_POOL_PAGE;
		uint64_t bit = 1ull << page % WORD_BITS;

		if (page >= pool_pages(pool) || pool->seen[page / WORD_BITS] & bit)
			continue;
		pool->seen[page / WORD_BITS] |= bit;
		pool->known++;
	}
}

void messages_pool_done(struct messages_pool_user *user, uint64_t pages, uint64_t bytes,
			const struct base_frag *frags, uint64_t nfrags, int64_t now_ns)
{
	struct messages_pool *pool = user->pool;

	pthread_mutex_lock(&pool->lock);
	pool_give_back(user, pages);
	pool->done_ns = now_ns;
	/* A small message is not considered: it says little about the fragments of a large one. */
	if (bytes >= pool->worst_bytes / 2 &&
	    nfrags * pool->worst_bytes > pool->worst_pages * bytes) {
		pool->worst_pages = nfrags;
		pool->worst_bytes = bytes;
	}
	/* Once enough pages for all users are known, no more are recorded. */
	if (pool->known < pool_pages_needed(pool, pool->full_bytes))
		pool_look_at(pool, frags, nfrags);
	pthread_mutex_unlock(&pool->lock);
}

void messages_pool_stuck(struct messages_pool_user *user, int64_t now_ns, int64_t after_ns)
{
	struct messages_pool *pool = user->pool;

	if (user->stuck)
		return;
	pthread_mutex_lock(&pool->lock);
	user->stuck = true;
	pool->posted -= user->posted;
	if (now_ns - pool->done_ns > after_ns && pool->known) {
		pool->known = 0;
		for (uint64_t i = 0; i * WORD_BITS < pool_pages(pool); i++)
			pool->seen[i] = 0;
	}
	pthread_mutex_unlock(&pool->lock);
}

void messages_pool_info(const struct messages_pool_user *user, uint64_t bytes,
			struct messages_pool_info *out_info)
{
	struct messages_pool *pool = user->pool;

	pthread_mutex_lock(&pool->lock);
	*out_info = (struct messages_pool_info){pool->known, pool->posted,
						pool_pages_needed(pool, bytes)};
	pthread_mutex_unlock(&pool->lock);
}
