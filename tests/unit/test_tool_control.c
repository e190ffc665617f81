/* SPDX-License-Identifier: Apache-2.0 */
/* The control of a run: a rank that finds another one gone says why that one went. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "cli_output.h"
#include "node_control_priv.h"

static struct node_control *control[2];

static tcpx_status find_zero(void *arg, void *info, size_t cap, size_t *out_bytes)
{
	return node_control_info(*(struct node_control **)arg, info, cap, out_bytes);
}

static struct node_control *open_rank(uint32_t rank)
{
	struct node_control_opts opts = {.rank = rank,
					 .size = 2,
					 .job = "unit",
					 .find = find_zero,
					 .find_arg = &control[0],
					 .bind = "127.0.0.1",
					 .timeout_ns = 20ll * 1000000000};

	assert_int_equal(node_control_open(&opts, &control[rank]), TCPX_OK);
	return control[rank];
}

static void *barrier_of_one(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)node_control_barrier(control[1], "first");
}

static void gone(struct node_control *c)
{
	tcpx_error error = {0};

	while (tcpx_peer_error(c->session, hub(c)->peer, &error) == TCPX_OK && !error.status)
		sched_yield();
}

/* Rank 0 said why it fails, and left, before this rank came to the next exchange. */
static void next_exchange_says_the_cause(void **state)
{
	pthread_t thread;
	void *ended;

	(void)state;
	open_rank(0);
	open_rank(1);
	assert_int_equal(pthread_create(&thread, NULL, barrier_of_one, NULL), 0);
	assert_int_equal(node_control_barrier(control[0], "first"), TCPX_OK);
	assert_int_equal(pthread_join(thread, &ended), 0);
	assert_null(ended);
	node_control_fail(control[0], "the cause");
	node_control_close(control[0]);
	gone(control[1]);
	assert_int_equal(node_control_barrier(control[1], "second"), TCPX_ERR_REMOTE);
	assert_non_null(strstr(tcpx_last_error()->what, "the cause"));
	node_control_close(control[1]);
}

/* A wait of a minute is mentioned four times, not twenty. */
static void waits_are_mentioned_less_and_less(void **state)
{
	const int64_t second = 1000000000;
	struct node_pace pace = node_pace_start(0, 3 * second);
	int64_t said[8];
	unsigned count = 0;

	(void)state;
	for (int64_t now = 0; now <= 60 * second; now += second / 10)
		if (node_pace_due(&pace, now))
			said[count++] = now / second;
	assert_int_equal(count, 4);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(said[i], (3 << (i + 1)) - 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(next_exchange_says_the_cause),
		cmocka_unit_test(waits_are_mentioned_less_and_less),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
