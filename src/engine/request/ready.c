/* SPDX-License-Identifier: Apache-2.0 */
/* The completion queue, and the wait for anything that the application can take. Queue nodes are
 * inside the requests, so a request that ends allocates nothing and the queue cannot overflow. The
 * queue's lock is a leaf: no other lock is taken while it is held, so taking a completion never
 * waits for a link. */
#include "engine/request/ready.h"

#include <limits.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/request/request_calls.h"
#include "engine/channel/lead.h"
#include "engine/channel/app_poll.h"
#include "sys/futex.h"

/* Whether no completion, notification or event waits for the application. Peers to accept do not
 * count. The caller holds queue.lock. */
static bool ready_nothing(const struct engine_session *session)
{
	return list_empty(&session->queue.completions) && list_empty(&session->queue.notes) &&
	       list_empty(&session->queue.events);
}

/* Makes the eventfd readable. Makes no system call if the application never asked for the eventfd.
 * The caller holds queue.lock. */
static void ready_signal(struct engine_session *session)
{
	uint64_t one = 1;

	if (session->queue.signalled || !session->queue.fd_used)
		return;
	session->queue.signalled = write(session->queue.eventfd, &one, sizeof(one)) == sizeof(one);
}

void ready_add(struct engine_session *session, struct list_node *list, struct list_node *node)
{
	bool first = ready_nothing(session);

	list_push_back(list, node);
	ready_signal(session);
	if (!first)
		/* The first entry has woken all waiters. They check the queues under queue.lock, so
		 * they will see this entry, too. */
		return;
	if (session->queue.ready_lead)
		lead_wake(session->queue.ready_lead);
	atomic_fetch_add(&session->queue.ready_word, 1);
	if (atomic_load(&session->queue.ready_waiters))
		sys_futex_wake(&session->queue.ready_word, INT_MAX);
}

void ready_taken(struct engine_session *session)
{
	uint64_t count;

	if (!session->queue.signalled || !ready_nothing(session))
		return;
	session->queue.signalled = false;
	(void)!read(session->queue.eventfd, &count, sizeof(count));
}

void completion_enter(struct engine_request *request)
{
	struct engine_session *session = request->session;

	pthread_mutex_lock(&session->queue.lock);
	atomic_store(&request->queued, true);
	ready_add(session, &session->queue.completions, &request->done);
	pthread_mutex_unlock(&session->queue.lock);
}

void completion_discard(struct engine_request *request)
{
	struct engine_session *session = request->session;

	if (!request->wants_queue)
		return;
	pthread_mutex_lock(&session->queue.lock);
	if (atomic_load(&request->queued)) {
		list_remove(&request->done);
		atomic_store(&request->queued, false);
		ready_taken(session);
	}
	pthread_mutex_unlock(&session->queue.lock);
}

static uint32_t completions_take(struct engine_session *session, tcpx_completion *completions,
				 uint32_t max)
{
	uint32_t taken = 0;

	pthread_mutex_lock(&session->queue.lock);
	while (taken < max && !list_empty(&session->queue.completions)) {
		struct list_node *node = session->queue.completions.next;
		struct engine_request *request = LIST_ENTRY(node, struct engine_request, done);

		__builtin_prefetch(node->next);
		completions[taken++] = request->completion;
		list_remove(node);
		/* Clear `queued` only after the copy: afterwards the request may be posted again,
		 * which overwrites the completion. */
		atomic_store_explicit(&request->queued, false, memory_order_release);
	}
	if (taken)
		ready_taken(session);
	pthread_mutex_unlock(&session->queue.lock);
	return taken;
}

uint32_t engine_poll(struct engine_session *session, tcpx_completion *completions, uint32_t max)
{
	uint32_t taken = completions_take(session, completions, max);

	if (!taken && app_poll_missed(session, NULL, true))
		taken = completions_take(session, completions, max);
	if (taken)
		app_poll_found(session);
	return taken;
}

static bool ready_there(void *arg)
{
	struct engine_session *session = arg;
	bool there;

	pthread_mutex_lock(&session->queue.lock);
	there = !ready_nothing(session);
	pthread_mutex_unlock(&session->queue.lock);
	return there;
}

tcpx_status engine_wait(struct engine_session *session, int64_t timeout_ns)
{
	int64_t deadline = timeout_ns < 0 ? -1 : clock_after(timeout_ns);

	for (;;) {
		uint32_t word = atomic_load(&session->queue.ready_word);

		if (ready_there(session))
			return TCPX_OK;
		if (timeout_ns == 0) {
			if (app_poll_missed(session, NULL, true) && ready_there(session))
				return TCPX_OK;
			return TCPX_IN_PROGRESS;
		}
		if (deadline >= 0 && clock_now_ns() >= deadline)
			return TCPX_IN_PROGRESS;
		if (lead_wait(session, NULL, &session->queue.ready_lead, &session->queue.lock,
			      ready_there, session, deadline))
			continue;
		app_poll_ends(session);
		atomic_fetch_add(&session->queue.ready_waiters, 1);
		sys_futex_wait(&session->queue.ready_word, word, deadline);
		atomic_fetch_sub(&session->queue.ready_waiters, 1);
	}
}

int engine_session_fd(struct engine_session *session)
{
	pthread_mutex_lock(&session->queue.lock);
	session->queue.fd_used = true;
	if (!ready_nothing(session))
		ready_signal(session);
	pthread_mutex_unlock(&session->queue.lock);
	return session->queue.eventfd;
}
