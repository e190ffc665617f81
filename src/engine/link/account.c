/* SPDX-License-Identifier: Apache-2.0 */
/* The memory account of a session: memory that is allocated, and memory that is set aside for
 * peers' notifications. */
#include "engine/link/account.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/link/engine.h"

/* smallest share of a link, in bytes, unless the notification budget is smaller still; less than
 * the memory of the link's rings of unacknowledged frames */
#define SHARE_MIN (16u << 10)
#define LOOK_NS (CLOCK_S_NS / 4) /* shortest time between two rounds of account_look() */

static void account_run(struct sys_post *post);

void account_init(struct engine_session *session)
{
	struct session_account *account = &session->account;

	pthread_mutex_init(&account->lock, NULL);
	list_init(&account->waiting);
	list_init(&account->post.node);
	account->post.fn = account_run;
}

void account_fini(struct engine_session *session)
{
	pthread_mutex_destroy(&session->account.lock);
}

void account_open(struct engine_session *session, uint64_t memory, uint64_t notify, uint32_t peers)
{
	struct session_account *account = &session->account;
	uint64_t share = memory / 2 / peers;

	if (share < SHARE_MIN)
		share = SHARE_MIN;
	/* All links together get at most half of `memory` beyond their shares, so no peer could
	 * use a larger notification budget. What a peer posts beyond the budget is refused at the
	 * peer. */
	if (notify > memory / 2)
		notify = memory / 2;
	account->budget = memory;
	account->share = share < notify ? share : notify;
	session->tuning.notify_budget = notify;
}

/* Charges either all of the bytes or none. Returns whether the bytes are charged. The charge is one
 * atomic step, so a large charge that is refused does not make a concurrent small one fail. */
static bool account_charge(struct session_account *account, uint64_t bytes)
{
	uint64_t used = atomic_load(&account->committed);

	do {
		if (used > account->budget || bytes > account->budget - used)
			return false;
	} while (!atomic_compare_exchange_weak(&account->committed, &used, used + bytes));
	return true;
}

/* Makes the control thread offer memory to the peers that wait for some. Does nothing if no peer
 * waits. */
static void account_wake(struct engine_session *session)
{
	struct session_account *account = &session->account;

	if (atomic_load(&account->nwaiting) && !atomic_exchange(&account->posted, 1))
		sys_loop_post(&engine_runtime.loop, &account->post);
}

static void account_refund(struct engine_session *session, uint64_t bytes)
{
	atomic_fetch_sub(&session->account.committed, bytes);
	account_wake(session);
}

uint64_t account_bytes(struct engine_session *session)
{
	struct session_account *account = &session->account;
	uint64_t bytes;

	pthread_mutex_lock(&account->lock);
	bytes = atomic_load(&account->committed) - account->aside + atomic_load(&account->notes);
	pthread_mutex_unlock(&account->lock);
	return bytes;
}

void *session_alloc(struct engine_session *session, size_t bytes)
{
	bool charged = account_charge(&session->account, bytes);
	void *ptr = charged ? malloc(bytes) : NULL;

	if (!ptr) {
		if (charged)
			account_refund(session, bytes);
		atomic_store(&session->account.over_budget, !charged);
	}
	return ptr;
}

/* Sets the calling thread's last error to the reason why the session's last allocation failed, and
 * returns that error's status. */
tcpx_status session_memory_error(struct engine_session *session)
{
	if (!atomic_load(&session->account.over_budget))
		return error_set(TCPX_ERR_NO_MEMORY, 0, "memory of the library");
	error_set(TCPX_ERR_LIMIT, 0, "memory budget of %llu bytes is used up",
		  (unsigned long long)session->account.budget);
	return error_next("raise memory_budget_bytes (TCPX_MEMORY_BUDGET_BYTES), or let peers "
			  "consume first");
}

void session_uncharge(struct engine_session *session, size_t bytes)
{
	account_refund(session, bytes);
}

void session_free(struct engine_session *session, void *ptr, size_t bytes)
{
	if (!ptr)
		return;
	free(ptr);
	account_refund(session, bytes);
}

void *account_note_alloc(struct engine_session *session, size_t bytes, size_t there)
{
	void *ptr = malloc(bytes);

	if (ptr)
		atomic_fetch_add(&session->account.notes, there);
	else
		atomic_store(&session->account.over_budget, false);
	return ptr;
}

void account_note_grew(struct engine_session *session, size_t more)
{
	atomic_fetch_add(&session->account.notes, more);
}

void account_note_free(struct engine_session *session, void *ptr, size_t there)
{
	free(ptr);
	atomic_fetch_sub(&session->account.notes, there);
}

/* Called under account.lock. Adds `bytes` to the number of bytes that are set aside for the link. A
 * negative number, converted to uint64_t, subtracts. */
static void account_set_aside(struct engine_peer *peer, uint64_t bytes)
{
	struct session_account *account = &peer->link.session->account;
	uint64_t share = account->share, before = peer->link.account.aside, after = before + bytes;

	peer->link.account.aside = after;
	account->aside += bytes;
	account->extra += after > share ? after - share : 0;
	account->extra -= before > share ? before - share : 0;
}

bool account_begin(struct engine_peer *peer)
{
	struct session_account *account = &peer->link.session->account;
	bool there;

	pthread_mutex_lock(&account->lock);
	there = account_charge(account, account->share);
	if (there)
		account_set_aside(peer, account->share);
	pthread_mutex_unlock(&account->lock);
	if (!there)
		atomic_store(&account->over_budget, true);
	return there;
}

/* Called under account.lock. Sets aside `bytes` more for the link. Returns false if the budget has
 * too little left, or if the memory of all links beyond their shares would then exceed half of the
 * budget. */
static bool account_claim(struct engine_peer *peer, uint64_t bytes)
{
	struct session_account *account = &peer->link.session->account;

	if (bytes > account->budget / 2 || account->extra > account->budget / 2 - bytes ||
	    !account_charge(account, bytes))
		return false;
	account_set_aside(peer, bytes);
	return true;
}

/* Called under account.lock. Returns whether `bytes` more may be set aside before they are needed.
 * Such memory may stay unused for long. It is therefore allowed only while all links hold at most a
 * quarter of the budget beyond their shares. The function does not check whether the budget has
 * that much left. */
static bool account_has_plenty(const struct session_account *account, uint64_t bytes)
{
	return account->extra <= account->budget / 4 &&
	       bytes <= account->budget / 4 - account->extra;
}

/* Called under account.lock. Removes the peer from the queue of peers that wait for memory, if it
 * is in the queue. */
static void account_leave_line(struct engine_peer *peer)
{
	if (list_empty(&peer->link.account.waiting))
		return;
	list_remove(&peer->link.account.waiting);
	atomic_fetch_sub(&peer->link.session->account.nwaiting, 1);
}

/* Sets aside memory for the peer, and returns how many bytes: `want` if there is plenty, else
 * `least`, or 0 if there is too little. Peers that wait are not overtaken: a peer gets memory only
 * if no other peer waits, if it is the first in the queue, or if account_serve() has given it the
 * turn. A peer that gets nothing joins the queue. */
uint64_t account_take(struct engine_peer *peer, uint64_t want, uint64_t least)
{
	struct session_account *account = &peer->link.session->account;
	uint64_t got = 0;

	pthread_mutex_lock(&account->lock);
	if (peer->link.account.turn || list_empty(&account->waiting) ||
	    account->waiting.next == &peer->link.account.waiting)
		got = account_has_plenty(account, want) && account_claim(peer, want) ? want
		      : account_claim(peer, least)				     ? least
										     : 0;
	if (got) {
		account_leave_line(peer);
	} else if (list_empty(&peer->link.account.waiting)) {
		if (peer->link.account.turn)
			list_push_front(&account->waiting, &peer->link.account.waiting);
		else
			list_push_back(&account->waiting, &peer->link.account.waiting);
		atomic_fetch_add(&account->nwaiting, 1);
	}
	pthread_mutex_unlock(&account->lock);
	/* Memory may have been returned without a wake-up just before this peer joined the queue,
	 * or the peers in front of this one may no longer need memory. So the control thread is
	 * woken to serve the queue. */
	if (!got && !peer->link.account.turn)
		account_wake(peer->link.session);
	return got;
}

void account_give(struct engine_peer *peer, uint64_t bytes)
{
	struct engine_session *session = peer->link.session;

	pthread_mutex_lock(&session->account.lock);
	account_set_aside(peer, -bytes);
	atomic_fetch_sub(&session->account.committed, bytes);
	if (peer->link.core.dead)
		account_leave_line(peer);
	pthread_mutex_unlock(&session->account.lock);
	account_wake(session);
}

/* Called by the control thread. Offers memory to a waiting peer. Returns false if the peer still
 * waits. Only the control thread ends peers, so the peer does not end during the call. */
static bool account_serve(struct engine_peer *peer)
{
	struct session_account *account = &peer->link.session->account;
	bool waits;

	link_lock(&peer->link);
	pthread_mutex_lock(&account->lock);
	account_leave_line(peer); /* account_take() puts the peer back if it still needs memory */
	pthread_mutex_unlock(&account->lock);
	peer->link.account.turn = true;
	core_note_more(&peer->link.core);
	peer->link.account.turn = false;
	pthread_mutex_lock(&account->lock);
	waits = !list_empty(&peer->link.account.waiting);
	pthread_mutex_unlock(&account->lock);
	link_unlock(&peer->link);
	return !waits;
}

/* Called by the control thread. Offers memory to the waiting peers, the longest waiting first.
 * Stops at the first peer that must keep waiting. */
static void account_offer(struct engine_session *session)
{
	struct session_account *account = &session->account;
	struct engine_peer *first;
	bool served = true;

	while (served) {
		pthread_mutex_lock(&account->lock);
		first = list_empty(&account->waiting)
				? NULL
				: LIST_ENTRY(account->waiting.next, struct engine_peer,
					     link.account.waiting);
		if (first)
			peer_get(first);
		pthread_mutex_unlock(&account->lock);
		if (!first)
			return;
		served = account_serve(first);
		peer_put(first);
	}
}

static void account_run(struct sys_post *post)
{
	struct session_account *account = LIST_ENTRY(post, struct session_account, post);

	atomic_store(&account->posted, 0);
	account_offer(LIST_ENTRY(account, struct engine_session, account));
}

/* Called under link.lock. Returns whether bytes of a notification frame that is still incomplete
 * have arrived after since_ns. core_note_moves() does not count these bytes: it changes only when a
 * notification begins to arrive and when a frame is complete. */
static bool note_bytes_come(const struct engine_peer *peer, int64_t since_ns)
{
	for (uint32_t i = 0; i <= peer->nbulk; i++) {
		if (peer->link.chan[i] && core_rx_notes(&peer->link.core, i) &&
		    atomic_load(&peer->link.chan[i]->heard_ns) > since_ns)
			return true;
	}
	return false;
}

/* Returns how many bytes beyond the peer's share are set aside for notifications of the peer that
 * have not reached the application. Returns 0 if these are at most (1 + CORE_COVER_AHEAD) shares.
 * Sets own->moved_ns to now_ns at the first call, if the result is 0, or if bytes of the peer's
 * notifications have arrived since the last call. */
static uint64_t account_held(struct engine_peer *peer, int64_t now_ns)
{
	struct peer_account *own = &peer->link.account;
	uint64_t held = 0, moves = own->moves;
	bool moved = false;

	link_lock(&peer->link);
	if (peer->link.core_ready && !peer->link.core.dead) {
		held = core_note_pending(&peer->link.core);
		moves = core_note_moves(&peer->link.core);
		moved = moves != own->moves || note_bytes_come(peer, own->moved_ns);
	}
	link_unlock_only(&peer->link);
	/* Memory may stay unused if it was requested ahead, or for a request that was then
	 * cancelled. So this much held memory is no sign that the peer hangs. */
	if (held <= (1 + CORE_COVER_AHEAD) * peer->link.session->account.share)
		held = 0;
	if (!held || moved || !own->moved_ns)
		own->moved_ns = now_ns;
	own->moves = moves;
	return held;
}

/* Returns the stuck peer that holds most memory, with a reference, or NULL if no peer is stuck. A
 * peer is stuck if it holds memory for unfinished notifications and none of their bytes have
 * arrived for silent_ns. A peer that is the only one in the queue is not stuck: no other peer needs
 * the memory that it holds. */
static struct engine_peer *account_find_stuck(struct engine_session *session, int64_t now_ns)
{
	struct session_account *account = &session->account;
	uint32_t waiting = atomic_load(&account->nwaiting);
	struct engine_peer *stuck = NULL;
	struct list_node *pos;
	uint64_t most = 0;

	session_lock(session);
	LIST_FOREACH(pos, &session->peer_list) {
		struct engine_peer *peer = LIST_ENTRY(pos, struct engine_peer, node);
		uint64_t held = account_held(peer, now_ns);
		bool alone;

		pthread_mutex_lock(&account->lock);
		alone = waiting == 1 && !list_empty(&peer->link.account.waiting);
		pthread_mutex_unlock(&account->lock);
		if (held <= most || alone || peer->died ||
		    now_ns - peer->link.account.moved_ns < session->tuning.silent_ns)
			continue;
		stuck = peer;
		most = held;
	}
	if (stuck)
		peer_get(stuck);
	session_unlock(session);
	return stuck;
}

struct engine_peer *account_look(struct engine_session *session, int64_t now_ns)
{
	struct session_account *account = &session->account;
	bool begins = !account->short_ns;
	struct engine_peer *stuck;

	if (!atomic_load(&account->nwaiting)) {
		account->short_ns = 0;
		return NULL;
	}
	if (!begins && now_ns - account->looked_ns < LOOK_NS)
		return NULL;
	account->looked_ns = now_ns;
	if (begins)
		account->short_ns = now_ns;
	account_offer(session);
	stuck = account_find_stuck(session, now_ns);
	if (stuck && now_ns - account->short_ns < session->tuning.silent_ns) {
		peer_put(stuck);
		stuck = NULL;
	}
	if (stuck) {
		atomic_fetch_add(&account->ended, 1);
		error_set(TCPX_ERR_LIMIT, 0,
			  "memory: it sent nothing of its unfinished notifications for %lld s "
			  "while other peers waited for the memory that it holds",
			  (long long)(session->tuning.silent_ns / CLOCK_S_NS));
		error_next("find out why that peer does not send, or raise memory_budget_bytes "
			   "(TCPX_MEMORY_BUDGET_BYTES)");
	}
	return stuck;
}
