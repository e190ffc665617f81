/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread's loop: who is called, who is not any more, and in which order. */
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "sys/cpu.h"
#include "sys/loop.h"

static struct sys_loop loop;
static char calls[64];

static int setup(void **state)
{
	(void)state;
	calls[0] = '\0';
	return sys_loop_init(&loop);
}

static int teardown(void **state)
{
	(void)state;
	sys_loop_fini(&loop);
	return 0;
}

static void note(char name)
{
	size_t len = strlen(calls);

	calls[len] = name;
	calls[len + 1] = '\0';
}

/* ---- watches ---- */

struct event {
	struct sys_watch watch;
	struct event *victim;
	char name;
};

static void on_event(struct sys_watch *watch, uint32_t events)
{
	struct event *event = LIST_ENTRY(watch, struct event, watch);

	assert_true(events & EPOLLIN);
	note(event->name);
	if (event->victim) {
		sys_watch_del(&loop, &event->victim->watch);
		sys_watch_del(&loop, &event->victim->watch); /* again: nothing happens */
	}
}

static void open_event(struct event *event, char name)
{
	*event = (struct event){.name = name, .watch = {.events = EPOLLIN, .fn = on_event}};
	event->watch.fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(event->watch.fd >= 0);
	assert_int_equal(sys_watch_add(&loop, &event->watch), TCPX_OK);
}

static void close_event(struct event *event)
{
	sys_watch_del(&loop, &event->watch);
	close(event->watch.fd);
}

static void a_deleted_watch_is_not_called_in_the_same_round(void **state)
{
	struct event a, b;

	(void)state;
	open_event(&a, 'a');
	open_event(&b, 'b');
	a.victim = &b;
	b.victim = &a;
	sys_loop_round(&loop, 0); /* whoever comes first takes the other one out */
	assert_int_equal(strlen(calls), 1);
	sys_loop_round(&loop, 0);
	assert_int_equal(strlen(calls), 2);
	assert_int_equal(calls[0], calls[1]);
	close_event(&a);
	close_event(&b);
}

static void a_watch_may_delete_itself(void **state)
{
	struct event a;

	(void)state;
	open_event(&a, 'a');
	a.victim = &a;
	sys_loop_round(&loop, 0);
	sys_loop_round(&loop, 0);
	assert_string_equal(calls, "a");
	close(a.watch.fd);
}

static void events_can_be_switched_off_and_on(void **state)
{
	struct event a;

	(void)state;
	open_event(&a, 'a');
	sys_watch_set(&loop, &a.watch, 0);
	sys_loop_round(&loop, 0);
	assert_string_equal(calls, "");
	sys_watch_set(&loop, &a.watch, EPOLLIN);
	sys_loop_round(&loop, 0);
	assert_string_equal(calls, "a");
	close_event(&a);
	sys_watch_set(&loop, &a.watch, EPOLLIN); /* of a watch that is gone: nothing */
	sys_loop_round(&loop, 0);
	assert_string_equal(calls, "a");
}

static void a_bad_descriptor_is_an_error(void **state)
{
	struct sys_watch watch = {.fd = -1, .events = EPOLLIN};

	(void)state;
	assert_int_equal(sys_watch_add(&loop, &watch), TCPX_ERR_SYSTEM);
	sys_watch_del(&loop, &watch);
}

/* ---- timers ---- */

struct alarm {
	struct sys_timer timer;
	struct alarm *victim;
	int again;
	char name;
};

static void on_alarm(struct sys_timer *timer, int64_t now_ns)
{
	struct alarm *alarm = LIST_ENTRY(timer, struct alarm, timer);

	assert_true(now_ns >= timer->due_ns);
	note(alarm->name);
	if (alarm->victim)
		sys_timer_del(&loop, &alarm->victim->timer);
	if (alarm->again-- > 0)
		sys_timer_set(&loop, timer, 0);
}

#define ALARM(letter)                                                                              \
	{                                                                                          \
		.name = (letter), .timer = {.fn = on_alarm }                                       \
	}

static void timers_fire_once_in_order_of_their_time(void **state)
{
	struct alarm a = ALARM('a'), b = ALARM('b'), c = ALARM('c'), d = ALARM('d');
	int64_t now_ns = clock_now_ns();

	(void)state;
	sys_timer_set(&loop, &c.timer, now_ns + 3 * CLOCK_MS_NS);
	sys_timer_set(&loop, &a.timer, now_ns + 1 * CLOCK_MS_NS);
	sys_timer_set(&loop, &b.timer, now_ns + 2 * CLOCK_MS_NS);
	sys_timer_set(&loop, &d.timer, now_ns + 1 * CLOCK_MS_NS);
	sys_timer_set(&loop, &d.timer, now_ns + 4 * CLOCK_MS_NS); /* moved */
	while (strlen(calls) < 4)
		sys_loop_round(&loop, -1);
	sys_loop_round(&loop, 2 * CLOCK_MS_NS);
	assert_string_equal(calls, "abcd");
}

static void a_deleted_timer_does_not_fire_even_when_due(void **state)
{
	struct alarm a = ALARM('a'), b = ALARM('b');

	(void)state;
	sys_timer_del(&loop, &b.timer); /* never set: nothing */
	a.victim = &b;
	sys_timer_set(&loop, &a.timer, 0);
	sys_timer_set(&loop, &b.timer, 0);
	sys_loop_round(&loop, CLOCK_MS_NS);
	sys_loop_round(&loop, CLOCK_MS_NS);
	assert_string_equal(calls, "a");
}

static void a_timer_that_sets_itself_waits_for_the_next_round(void **state)
{
	struct alarm a = ALARM('a');

	(void)state;
	a.again = 2;
	sys_timer_set(&loop, &a.timer, 0);
	sys_loop_round(&loop, -1);
	assert_string_equal(calls, "a");
	sys_loop_round(&loop, -1);
	sys_loop_round(&loop, -1);
	assert_string_equal(calls, "aaa");
}

static void lateness_is_our_own_stall_and_nothing_else(void **state)
{
	struct alarm a = ALARM('a');
	int64_t due_ns;

	(void)state;
	sys_timer_set(&loop, &a.timer, 1); /* long ago means now */
	sys_loop_round(&loop, -1);
	assert_true(loop.late_ns < 20 * CLOCK_S_NS);
	due_ns = clock_now_ns() + CLOCK_MS_NS;
	sys_timer_set(&loop, &a.timer, due_ns);
	while (clock_now_ns() < due_ns + 30 * CLOCK_MS_NS)
		; /* the loop does not run */
	sys_loop_round(&loop, -1);
	assert_true(loop.late_ns >= 30 * CLOCK_MS_NS);
}

/* ---- posts ---- */

struct job {
	struct sys_post post;
	_Atomic int runs;
	int again;
	char name;
};

static void on_job(struct sys_post *post)
{
	struct job *job = LIST_ENTRY(post, struct job, post);

	atomic_fetch_add(&job->runs, 1);
	if (job->name)
		note(job->name);
	if (job->again-- > 0)
		sys_loop_post(&loop, post);
}

static void posts_run_in_order_once_per_post(void **state)
{
	struct job a = {.post = {.fn = on_job}, .name = 'a', .again = 1};
	struct job b = {.post = {.fn = on_job}, .name = 'b'};

	(void)state;
	sys_loop_post(&loop, &a.post);
	sys_loop_post(&loop, &b.post);
	sys_loop_post(&loop, &a.post); /* queued already: the same call */
	sys_loop_round(&loop, 0);
	assert_string_equal(calls, "ab");
	sys_loop_round(&loop, 0);
	sys_loop_round(&loop, 0);
	assert_string_equal(calls, "aba");
}

static struct job shared[4];
static _Atomic int posting;

static void *post_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < 2000; i++)
		sys_loop_post(&loop, &shared[i % 4].post);
	atomic_fetch_sub(&posting, 1);
	return NULL;
}

static void posts_of_other_threads_wake_the_loop(void **state)
{
	pthread_t threads[2];

	(void)state;
	for (int i = 0; i < 4; i++)
		shared[i] = (struct job){.post = {.fn = on_job}};
	atomic_store(&posting, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sys_thread_start(&threads[i], "poster", post_often, NULL),
				 TCPX_OK);
	while (atomic_load(&posting))
		sys_loop_round(&loop, 10 * CLOCK_MS_NS);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 4; i++)
		atomic_store(&shared[i].runs, 0);
	sys_loop_round(&loop, 0); /* what was still queued */
	for (int i = 0; i < 4; i++) {
		int ran = atomic_load(&shared[i].runs);

		assert_true(ran == 0 || ran == 1);
		sys_loop_post(&loop, &shared[i].post);
	}
	sys_loop_round(&loop, -1);
	for (int i = 0; i < 4; i++)
		assert_true(atomic_load(&shared[i].runs) >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(a_deleted_watch_is_not_called_in_the_same_round),
		T(a_watch_may_delete_itself),
		T(events_can_be_switched_off_and_on),
		T(a_bad_descriptor_is_an_error),
		T(timers_fire_once_in_order_of_their_time),
		T(a_deleted_timer_does_not_fire_even_when_due),
		T(a_timer_that_sets_itself_waits_for_the_next_round),
		T(lateness_is_our_own_stall_and_nothing_else),
		T(posts_run_in_order_once_per_post),
		T(posts_of_other_threads_wake_the_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
