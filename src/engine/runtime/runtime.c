/* SPDX-License-Identifier: Apache-2.0 */
/* Runs functions on the control thread of the runtime. */
#include "engine/runtime/engine_runtime.h"

#include "sys/futex.h"

struct engine_runtime engine_runtime = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A call that the control thread runs while another thread waits for its end. */
struct call {
	struct sys_post post;
	void (*fn)(void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
};

static void call_run(struct sys_post *post)
{
	struct call *call = (struct call *)post;

	call->fn(call->arg);
	pthread_mutex_lock(&call->lock);
	call->done = true;
	pthread_cond_signal(&call->cond);
	pthread_mutex_unlock(&call->lock);
}

bool runtime_is_control(void)
{
	return pthread_equal(pthread_self(), engine_runtime.control);
}

/* Counts a freed peer, and wakes the threads that wait for one. The futex is in the runtime,
 * because the peer's session may be freed already. */
void runtime_peer_freed(void)
{
	atomic_fetch_add(&engine_runtime.peers_freed, 1);
	sys_futex_wake(&engine_runtime.peers_freed, INT_MAX);
}

void runtime_call(void (*fn)(void *arg), void *arg)
{
	struct call call = {.post = {.fn = call_run}, .fn = fn, .arg = arg};

	if (runtime_is_control()) {
		fn(arg);
		return;
	}
	pthread_mutex_init(&call.lock, NULL);
	pthread_cond_init(&call.cond, NULL);
	sys_loop_post(&engine_runtime.loop, &call.post);
	pthread_mutex_lock(&call.lock);
	while (!call.done)
		pthread_cond_wait(&call.cond, &call.lock);
	pthread_mutex_unlock(&call.lock);
	pthread_cond_destroy(&call.cond);
	pthread_mutex_destroy(&call.lock);
}
