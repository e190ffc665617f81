/* SPDX-License-Identifier: Apache-2.0 */
/* The test kind "slow": copies run on a thread of its own, 0-300 us late and out of order. */
#include "parts/slow.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

#define SLOW_DELAY_NS 300000u

struct slow_state {
	pthread_mutex_t lock;
	pthread_cond_t work;	/* a copy was queued, or a hold ended */
	pthread_cond_t changed; /* a copy was queued, or one ended */
	struct mem_copy *queue; /* by due time */
	uint64_t random;
	unsigned pending;
	int started, busy, held;
};

static struct slow_state slow = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
};

static uint64_t slow_random(void) /* under the lock; xorshift64* */
{
	slow.random ^= slow.random >> 12;
	slow.random ^= slow.random << 25;
	slow.random ^= slow.random >> 27;
	return slow.random * 0x2545f4914f6cdd1dull;
}

static struct timespec slow_time(int64_t ns)
{
	return (struct timespec){ns / CLOCK_S_NS, ns % CLOCK_S_NS};
}

static void *slow_main(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&slow.lock);
	for (;;) {
		struct mem_copy *copy = slow.queue;
		tcpx_status status;

		if (slow.held || !copy) {
			pthread_cond_wait(&slow.work, &slow.lock);
			continue;
		}
		if (copy->due_ns > clock_now_ns()) {
			struct timespec due = slow_time(copy->due_ns);

			pthread_cond_timedwait(&slow.work, &slow.lock, &due);
			continue;
		}
		slow.queue = copy->next;
		slow.busy = 1;
		pthread_mutex_unlock(&slow.lock);
		status = mem_copy_run(copy);
		copy->done(copy, status); /* copy may be freed by it */
		pthread_mutex_lock(&slow.lock);
		slow.busy = 0;
		slow.pending--;
		pthread_cond_broadcast(&slow.changed);
	}
	return NULL;
}

/* A forked child does not have the thread; the queue belongs to the parent. */
static void slow_forked(void)
{
	pthread_mutex_init(&slow.lock, NULL);
	pthread_cond_init(&slow.changed, NULL);
	slow.queue = NULL;
	slow.pending = 0;
	slow.started = slow.busy = slow.held = 0;
}

/* The thread is never stopped: it belongs to a test kind, and copies may end after their
 * session. */
static tcpx_status slow_start(void) /* under the lock */
{
	static int registered;
	const char *seed = getenv("TCPX_SLOW_SEED");
	pthread_condattr_t attr;
	pthread_attr_t detached;
	sigset_t all, old;
	pthread_t thread;
	int err;

	if (!registered && pthread_atfork(NULL, NULL, slow_forked) == 0)
		registered = 1;
	slow.random = seed ? strtoull(seed, NULL, 0) : 0;
	if (!slow.random)
		slow.random = 0x9e3779b97f4a7c15ull;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&slow.work, &attr);
	pthread_condattr_destroy(&attr);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	sigfillset(&all); /* signals belong to the application */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, &detached, slow_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&detached);
	if (err)
		return error_set(TCPX_ERR_NO_MEMORY, err, "thread of memory kind slow");
	slow.started = 1;
	return TCPX_OK;
}

static tcpx_status slow_queue(struct mem_copy *copy, int to_slot)
{
	tcpx_status status = TCPX_OK;
	struct mem_copy **at;

	copy->to_slot = to_slot;
	pthread_mutex_lock(&slow.lock);
	if (!slow.started)
		status = slow_start();
	if (!status) {
		copy->due_ns = clock_now_ns() + (int64_t)(slow_random() % SLOW_DELAY_NS);
		for (at = &slow.queue; *at && (*at)->due_ns <= copy->due_ns; at = &(*at)->next)
			;
		copy->next = *at;
		*at = copy;
		slow.pending++;
		pthread_cond_signal(&slow.work);
		pthread_cond_broadcast(&slow.changed);
	}
	pthread_mutex_unlock(&slow.lock);
	return status;
}

static tcpx_status slow_fill(struct mem_copy *copy)
{
	return slow_queue(copy, 1);
}

static tcpx_status slow_commit(struct mem_copy *copy)
{
	return slow_queue(copy, 0);
}

static tcpx_status slow_probe(void *addr, uint64_t length, uint32_t device, uint64_t *out_id)
{
	(void)addr;
	(void)length;
	*out_id = 0;
	if (device)
		return error_set(TCPX_ERR_INVALID, 0, "memory kind slow has device 0 only, not %u",
				 device);
	return TCPX_OK;
}

void mem_slow_hold(int on)
{
	pthread_mutex_lock(&slow.lock);
	slow.held = on;
	if (on)
		while (slow.busy)
			pthread_cond_wait(&slow.changed, &slow.lock);
	else if (slow.started)
		pthread_cond_signal(&slow.work);
	pthread_mutex_unlock(&slow.lock);
}

unsigned mem_slow_pending(void)
{
	unsigned pending;

	pthread_mutex_lock(&slow.lock);
	pending = slow.pending;
	pthread_mutex_unlock(&slow.lock);
	return pending;
}

void mem_slow_await(unsigned pending)
{
	pthread_mutex_lock(&slow.lock);
	while (slow.pending < pending)
		pthread_cond_wait(&slow.changed, &slow.lock);
	pthread_mutex_unlock(&slow.lock);
}

void mem_slow_settle(void)
{
	pthread_mutex_lock(&slow.lock);
	while (slow.pending)
		pthread_cond_wait(&slow.changed, &slow.lock);
	pthread_mutex_unlock(&slow.lock);
}

const struct mem_kind mem_slow = {
	.name = "slow",
	.kind = MEM_KIND_TEST,
	.staged = 1,
	.mapped = 1,
	.probe = slow_probe,
	.fill = slow_fill,
	.commit = slow_commit,
	.slot_alloc = mem_slot_alloc,
	.slot_free = mem_slot_free,
};

__attribute__((constructor)) static void slow_enrol(void)
{
	mem_test_kind = &mem_slow;
}
