/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that announce more than they send: others go on, and memory is what has arrived. One that
 * keeps what others wait for is ended, under the test's own clock. */
#include "raw_rig.h"

#include <sched.h>

#include "base/clock.h"
#include "engine/session/calls.h"

#define WAIT_NS (20 * CLOCK_S_NS)
#define RAWS 8
#define MIB (1ull << 20)
#define COST(bytes) ((bytes) + CORE_NOTE_COST)

static struct raw raws[RAWS];
static tcpx_session *client;
static tcpx_peer there;
static uint8_t text[8 * MIB];

static void open_with(uint64_t memory)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = "victim", .bind = "127.0.0.1", .channels = 2,
		  .flags = TCPX_SESSION_NO_LOCAL, .memory_budget_bytes = memory, .silent_ms = 60000,
		  .stopped_ms = 600000);
	TCPX_OPTS(tcpx_session_opts, mine, .name = "honest", .bind = "127.0.0.1", .channels = 1,
		  .flags = TCPX_SESSION_NO_LOCAL, .silent_ms = 60000, .stopped_ms = 600000);
	char address[32];

	tcpx_log_set(NULL, NULL, TCPX_LOG_ERROR);
	assert_int_equal(tcpx_session_open(&opts, &session), TCPX_OK);
	assert_int_equal(tcpx_session_listen(session, NULL, &port), TCPX_OK);
	assert_int_equal(tcpx_session_open(&mine, &client), TCPX_OK);
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	assert_int_equal(tcpx_session_connect_to(client, address, NULL, &there), TCPX_OK);
	for (int i = 0; i < RAWS; i++) {
		raws[i].secret = (const uint8_t *)"never to be seen by it";
		raws[i].secret_bytes = 22;
		raw_connect(&raws[i], port);
	}
}

static void close_all(void)
{
	for (int i = 0; i < RAWS; i++) {
		raw_close(&raws[i]);
		for (uint32_t c = 0; c < RAW_CHANNELS; c++)
			free(raws[i].chan[c].rest);
		memset(&raws[i], 0, sizeof(raws[i]));
	}
	tcpx_session_close(client);
	tcpx_session_close(session);
}

static tcpx_counters counters_now(void)
{
	tcpx_counters counters = {.sz = sizeof(counters)};

	assert_int_equal(tcpx_session_counters(session, &counters), TCPX_OK);
	return counters;
}

static void await_lost(uint64_t count)
{
	int64_t deadline = clock_after(WAIT_NS); /* a wide guard */

	while (counters_now().peers_lost < count) {
		assert_true(clock_now_ns() < deadline);
		sched_yield();
	}
}

/* Memory of 64 MiB may be written to first (MALLOC_PERTURB_), which takes longer than one wait. */
static void settle(struct raw *from)
{
	int64_t deadline = clock_after(WAIT_NS); /* a wide guard */

	while (!raw_settle(from))
		assert_true(clock_now_ns() < deadline);
	assert_true(from->alive);
}

/* A part of a notification. */
static void announce(struct raw *from, uint64_t number, uint64_t total, uint64_t linear)
{
	struct frame frame = {.type = FRAME_NOTIFY,
			      .xfer = number,
			      .key = FRAME_NOTE_ALONE,
			      .linear = linear,
			      .offset = total,
			      .payload_bytes = 1};

	raw_send(from, 1, &frame, NULL, 1, FRAME_VALID, 0);
}

static void arrives(size_t bytes)
{
	tcpx_notification note = {.sz = sizeof(note)};

	assert_int_equal(tcpx_notify_take(session, WAIT_NS, &note), TCPX_OK);
	assert_int_equal(note.bytes, bytes);
	assert_string_equal(note.name, "honest");
	tcpx_notification_release(session, &note);
}

/* 8 peers, 17 frames of one byte: nothing is kept for them, and they cost nobody else anything. */
static void announced_and_not_granted(void **state)
{
	uint64_t before;

	(void)state;
	open_with(1024 * MIB);
	before = counters_now().memory_bytes;
	for (int i = 0; i < RAWS; i++)
		for (uint64_t k = 1; k <= 2; k++)
			announce(&raws[i], k, k == 1 ? 64 * MIB : 60 * MIB, 0);
	for (int i = 0; i < RAWS; i++)
		(void)raw_settle(&raws[i]);
	assert_int_equal(tcpx_notify_send(client, there, text, 4096), TCPX_OK);
	arrives(4096);
	assert_true(counters_now().memory_bytes <= before + MIB);
	await_lost(RAWS);
	close_all();
}

#ifndef ACCOUNT_PUBLIC_ONLY
static struct engine_session *inside(void)
{
	return (struct engine_session *)session;
}

static void ask(struct raw *from, uint64_t upto)
{
	struct frame frame = {
		.type = FRAME_CREDIT, .key = FRAME_CREDIT_COVER, .linear = upto, .offset = upto};

	raw_send(from, 0, &frame, NULL, 0, FRAME_VALID, 0);
	settle(from);
}

static void await_waiting(uint32_t count)
{
	int64_t deadline = clock_after(WAIT_NS); /* a wide guard */

	while (atomic_load(&inside()->account.nwaiting) != count) {
		assert_true(clock_now_ns() < deadline);
		sched_yield();
	}
}

struct look {
	int64_t now_ns;
};

static void look_run(void *arg)
{
	struct engine_peer *holder = account_look(inside(), ((struct look *)arg)->now_ns);

	if (holder) {
		peer_die_last(holder);
		peer_put(holder);
	}
}

static void look_at(int64_t now_ns)
{
	struct look look = {now_ns};

	runtime_call(look_run, &look);
}

/* With credit, all that there is: small ones of others have their share, larger ones wait. */
static void granted_and_not_sent(void **state)
{
	uint64_t before;

	(void)state;
	open_with(1024 * MIB);
	before = counters_now().memory_bytes;
	for (int i = 0; i < RAWS; i++)
		ask(&raws[i], COST(64 * MIB) + COST(60 * MIB));
	await_waiting(RAWS - 4);
	for (int i = 0; i < 4; i++) {
		announce(&raws[i], 1, 64 * MIB, 77);
		announce(&raws[i], 2, 60 * MIB, 0);
		settle(&raws[i]);
	}
	assert_true(counters_now().memory_bytes < before + MIB);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(tcpx_notify_send(client, there, text, 4096), TCPX_OK);
		arrives(4096);
	}
	assert_int_equal(counters_now().peers_lost, 0);
	assert_int_equal(tcpx_notify_send(client, there, text, 200000), TCPX_OK);
	await_waiting(RAWS - 4 + 1);
	raw_close(&raws[1]); /* memory comes back: the first in line has it, and leaves some */
	for (int i = 4; i < RAWS; i++)
		raw_close(&raws[i]);
	arrives(200000);
	close_all();
}

/* moves: the one that holds most sends a byte now and then. */
static void the_stuck_one_ends(void **state)
{
	(void)state;
	for (int moves = 0; moves < 2; moves++) {
		int64_t now = clock_now_ns(), second = CLOCK_S_NS;
		const int ended = moves ? 3 : 2;
		tcpx_event event = {.sz = sizeof(event)};
		tcpx_error error = {.sz = sizeof(error)};

		open_with(64 * MIB);
		ask(&raws[2], COST(20 * MIB));
		ask(&raws[3], COST(10 * MIB));
		announce(&raws[2], 1, 20 * MIB, 0);
		announce(&raws[3], 1, 10 * MIB, 0);
		settle(&raws[2]);
		settle(&raws[3]);
		for (int i = 0; i < 3; i++) /* nobody waits */
			look_at(now + i * 100 * second);
		assert_int_equal(tcpx_notify_send(client, there, text, sizeof(text)), TCPX_OK);
		await_waiting(1);
		now += 1000 * second;
		look_at(now);
		look_at(now + 59 * second);
		assert_int_equal(counters_now().peers_lost, 0);
		if (moves) {
			announce(&raws[2], 1, 20 * MIB, 500);
			settle(&raws[2]);
		}
		look_at(now + 61 * second);
		event = await(TCPX_EVENT_PEER_DOWN);
		assert_int_equal(event.status, TCPX_ERR_LIMIT);
		assert_int_equal(tcpx_peer_error(session, event.peer, &error), TCPX_OK);
		assert_non_null(strstr(error.what, "memory"));
		assert_non_null(strstr(error.next, "TCPX_MEMORY_BUDGET_BYTES"));
		arrives(sizeof(text));
		look_at(now + 200 * second);
		assert_int_equal(counters_now().peers_lost, 1);
		assert_int_equal(counters_now().holders_ended, 1);
		for (int i = 0; i < RAWS; i++)
			if (i != ended)
				settle(&raws[i]);
		close_all();
	}
}

/* Whoever waits for itself alone is left in peace, and goes on when its own are released. */
static void who_waits_for_itself(void **state)
{
	int64_t now = clock_now_ns();
	tcpx_notification notes[4];

	(void)state;
	open_with(64 * MIB);
	for (int i = 0; i < 4; i++) /* 32 MiB, and the account has as much beyond the shares */
		assert_int_equal(tcpx_notify_send(client, there, text, sizeof(text) - 4096),
				 TCPX_OK);
	for (int i = 0; i < 4; i++) {
		notes[i].sz = sizeof(notes[i]);
		assert_int_equal(tcpx_notify_take(session, WAIT_NS, &notes[i]), TCPX_OK);
	}
	ask(&raws[0], COST(8 * MIB)); /* the application has it all */
	await_waiting(1);
	look_at(now);
	look_at(now + 100 * CLOCK_S_NS);
	assert_int_equal(counters_now().peers_lost, 0);
	for (int i = 0; i < 4; i++)
		tcpx_notification_release(session, &notes[i]);
	await_waiting(0);
	announce(&raws[0], 1, 8 * MIB, 0);
	settle(&raws[0]);
	assert_int_equal(counters_now().peers_lost, 0);
	close_all();
}

/* Nothing stays set aside when peers are gone, but for what the application has. */
static void given_back_in_the_end(void **state)
{
	tcpx_notification note = {.sz = sizeof(note)};

	(void)state;
	open_with(64 * MIB);
	ask(&raws[0], COST(20 * MIB));
	assert_int_equal(tcpx_notify_send(client, there, text, MIB), TCPX_OK);
	assert_int_equal(tcpx_notify_take(session, WAIT_NS, &note), TCPX_OK);
	for (int i = 0; i < RAWS; i++)
		raw_close(&raws[i]);
	assert_int_equal(tcpx_peer_disconnect(client, there), TCPX_OK);
	await_lost(RAWS + 1);
	assert_int_equal(inside()->account.aside, COST(MIB));
	assert_int_equal(note.bytes, MIB);
	tcpx_notification_release(session, &note);
	assert_int_equal(inside()->account.aside, 0);
	assert_int_equal(inside()->account.extra, 0);
	assert_int_equal(atomic_load(&inside()->account.notes), 0);
	assert_int_equal(atomic_load(&inside()->account.committed), counters_now().memory_bytes);
	close_all();
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(announced_and_not_granted),
#ifndef ACCOUNT_PUBLIC_ONLY
		cmocka_unit_test(granted_and_not_sent),
		cmocka_unit_test(the_stuck_one_ends),
		cmocka_unit_test(who_waits_for_itself),
		cmocka_unit_test(given_back_in_the_end),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
