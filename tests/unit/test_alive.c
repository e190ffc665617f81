/* SPDX-License-Identifier: Apache-2.0 */
/* The liveness judgement in virtual time: exact bounds for silent, stopped, slow, paused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/alive.h"

#define MS 1000000LL
#define S 1000000000LL

static const struct core_alive_config defaults = {.silent_ns = 5 * S, .stopped_ns = 10 * S};

/* What the peer and the network do while time runs in steps. */
struct world {
	struct core_alive alive;
	int64_t now;
	bool beats;  /* the peer's heartbeats arrive */
	bool acks;   /* its kernel's acknowledgements arrive */
	bool frozen; /* our own timer does not run */
	int beats_sent;
};

static struct world world_at(const struct core_alive_config *cfg)
{
	struct world w = {.now = 1000 * S, .beats = true, .acks = true};

	core_alive_init(&w.alive, cfg, w.now);
	return w;
}

/* Runs until something is said or the length is over; returns it and leaves now there. */
static enum core_alive_verdict run(struct world *w, int64_t length)
{
	int64_t end = w->now + length, due;

	while (w->now < end) {
		enum core_alive_verdict verdict;

		w->now += 10 * MS;
		if (w->frozen)
			continue;
		if (core_alive_beat_due(&w->alive, w->now)) {
			core_alive_sent(&w->alive, w->now);
			w->beats_sent++;
		}
		if (w->beats && w->now % S == 0)
			core_alive_heard_beat(&w->alive, w->now);
		core_alive_sample(&w->alive, w->now, !w->acks, w->acks);
		verdict = core_alive_tick(&w->alive, w->now, &due);
		assert_true(due > w->now && due <= w->now + S);
		if (verdict != CORE_ALIVE_OK)
			return verdict;
	}
	return CORE_ALIVE_OK;
}

static void healthy_peer_is_never_suspected(void **state)
{
	struct world w = world_at(&defaults);

	(void)state;
	assert_int_equal(run(&w, 3600 * S), CORE_ALIVE_OK);
	assert_in_range(w.beats_sent, 3590, 3600);
}

static void silent_peer_dies_after_silent(void **state)
{
	struct world w = world_at(&defaults);
	int64_t start;

	(void)state;
	assert_int_equal(run(&w, 10 * S), CORE_ALIVE_OK);
	w.beats = w.acks = false;
	start = w.now;
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_SUSPECT);
	assert_int_equal(w.now - start, 3 * S);
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_DEAD_SILENT);
	assert_int_equal(w.now - start, 5 * S);
	w.beats = w.acks = true;
	assert_int_equal(run(&w, S), CORE_ALIVE_DEAD_SILENT); /* sticky */
}

static void silent_limit_of_the_options_holds(void **state)
{
	(void)state;
	for (int64_t limit = 1; limit <= 60; limit++) {
		struct core_alive_config cfg = {.silent_ns = limit * S, .stopped_ns = 10 * S};
		struct world w = world_at(&cfg);
		int64_t start;
		enum core_alive_verdict verdict;

		assert_int_equal(run(&w, 10 * S), CORE_ALIVE_OK);
		w.beats = w.acks = false;
		start = w.now;
		do
			verdict = run(&w, 100 * S);
		while (verdict == CORE_ALIVE_SUSPECT);
		assert_int_equal(verdict, CORE_ALIVE_DEAD_SILENT);
		assert_int_equal(w.now - start, limit * S);
	}
}

static void stopped_peer_dies_later(void **state)
{
	struct world w = world_at(&defaults);
	int64_t start;

	(void)state;
	assert_int_equal(run(&w, 10 * S), CORE_ALIVE_OK);
	w.beats = false;
	start = w.now;
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_SUSPECT);
	assert_int_equal(w.now - start, 3 * S);
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_DEAD_STOPPED);
	assert_int_equal(w.now - start, 10 * S);
}

static void stopped_limit_may_be_off(void **state)
{
	struct core_alive_config cfg = {.silent_ns = 5 * S, .stopped_ns = 0};
	struct world w = world_at(&cfg);

	(void)state;
	w.beats = false;
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_SUSPECT);
	assert_int_equal(run(&w, 3600 * S), CORE_ALIVE_OK);
	w.beats = true;
	assert_int_equal(run(&w, 2 * S), CORE_ALIVE_RECOVERED);
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_OK);
}

static void peer_that_comes_back_in_time_recovers(void **state)
{
	struct world w = world_at(&defaults);

	(void)state;
	w.beats = w.acks = false;
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_SUSPECT);
	w.beats = w.acks = true;
	assert_int_equal(run(&w, 2 * S), CORE_ALIVE_RECOVERED);
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_OK);
	assert_int_equal(w.alive.suspicions, 1);
}

/* The data sockets are full for an hour, the heartbeats come: a slow reader. */
static void slow_reader_is_never_killed(void **state)
{
	struct world w = world_at(&defaults);

	(void)state;
	w.acks = false;
	assert_int_equal(run(&w, 3600 * S), CORE_ALIVE_OK);
}

/* No heartbeat, but bytes on data channels: heard is heard. */
static void data_counts_as_heard(void **state)
{
	struct world w = world_at(&defaults);

	(void)state;
	w.beats = w.acks = false;
	for (int i = 0; i < 100; i++) {
		core_alive_heard(&w.alive, w.now);
		assert_int_equal(run(&w, 2 * S), CORE_ALIVE_OK);
	}
}

static void own_stall_kills_nobody(void **state)
{
	struct world w = world_at(&defaults);
	int64_t start;

	(void)state;
	assert_int_equal(run(&w, 10 * S), CORE_ALIVE_OK);
	w.frozen = true;
	w.beats = w.acks = false;
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_OK);
	w.frozen = false;
	w.beats = w.acks = true;
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_OK);
	assert_int_equal(w.alive.stalls, 1);
	/* And a peer that died meanwhile is found within the limit from there. */
	w.frozen = true;
	w.beats = w.acks = false;
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_OK);
	w.frozen = false;
	start = w.now;
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_SUSPECT);
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_DEAD_SILENT);
	assert_in_range(w.now - start, 5 * S, 5 * S + 20 * MS);
}

/* A stall in the middle of a suspicion restarts the clock but is no recovery. */
static void stall_while_suspect_is_no_recovery(void **state)
{
	struct world w = world_at(&defaults);
	int64_t start;

	(void)state;
	w.beats = w.acks = false;
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_SUSPECT);
	w.frozen = true;
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_OK);
	w.frozen = false;
	start = w.now;
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_DEAD_SILENT);
	assert_in_range(w.now - start, 5 * S, 5 * S + 20 * MS);
}

static void announced_pause_stops_the_clock(void **state)
{
	struct world w = world_at(&defaults);
	int64_t start;

	(void)state;
	core_alive_heard_pause(&w.alive, w.now, 60 * S);
	w.beats = false;
	start = w.now;
	assert_int_equal(run(&w, 200 * S), CORE_ALIVE_SUSPECT);
	assert_int_equal(w.now - start, 63 * S);
	assert_int_equal(run(&w, 200 * S), CORE_ALIVE_DEAD_STOPPED);
	assert_int_equal(w.now - start, 70 * S);
}

static void heartbeat_ends_a_pause(void **state)
{
	struct world w = world_at(&defaults);
	int64_t start;

	(void)state;
	core_alive_heard_pause(&w.alive, w.now, 60 * S);
	assert_int_equal(run(&w, 2 * S), CORE_ALIVE_OK); /* heartbeats come */
	w.beats = w.acks = false;
	start = w.now;
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_SUSPECT);
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_DEAD_SILENT);
	assert_int_equal(w.now - start, 5 * S);
}

static void announced_pause_is_bounded(void **state)
{
	struct world w = world_at(&defaults);
	int64_t start = w.now;

	(void)state;
	core_alive_heard_pause(&w.alive, w.now, INT64_MAX);
	w.beats = w.acks = false;
	assert_int_equal(run(&w, CORE_ALIVE_PAUSE_MAX_NS * 2), CORE_ALIVE_SUSPECT);
	assert_int_equal(run(&w, 60 * S), CORE_ALIVE_DEAD_SILENT);
	assert_int_equal(w.now - start, CORE_ALIVE_PAUSE_MAX_NS + 5 * S);
}

/* A frame on the control link stands for a heartbeat. */
static void traffic_saves_heartbeats(void **state)
{
	struct world w = world_at(&defaults);

	(void)state;
	for (int i = 0; i < 100; i++) {
		core_alive_sent(&w.alive, w.now);
		assert_int_equal(run(&w, 900 * MS), CORE_ALIVE_OK);
	}
	assert_int_equal(w.beats_sent, 0);
}

/* The kernel acknowledged at first, then the network went too: the later sign counts, bounded. */
static void stopped_then_unreachable_is_bounded(void **state)
{
	(void)state;
	for (int64_t acks = 0; acks <= 10 * S; acks += 250 * MS) {
		struct world w = world_at(&defaults);
		int64_t start;
		enum core_alive_verdict verdict;

		assert_int_equal(run(&w, 10 * S), CORE_ALIVE_OK);
		w.beats = false;
		start = w.now;
		verdict = acks ? run(&w, acks) : CORE_ALIVE_OK;
		if (verdict == CORE_ALIVE_SUSPECT)
			verdict = run(&w, acks - (w.now - start));
		w.acks = false;
		while (verdict == CORE_ALIVE_OK || verdict == CORE_ALIVE_SUSPECT)
			verdict = run(&w, 60 * S);
		assert_true(verdict == CORE_ALIVE_DEAD_SILENT ||
			    verdict == CORE_ALIVE_DEAD_STOPPED);
		assert_in_range(w.now - start, 5 * S, 15 * S);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_peer_is_never_suspected),
		cmocka_unit_test(silent_peer_dies_after_silent),
		cmocka_unit_test(silent_limit_of_the_options_holds),
		cmocka_unit_test(stopped_peer_dies_later),
		cmocka_unit_test(stopped_limit_may_be_off),
		cmocka_unit_test(peer_that_comes_back_in_time_recovers),
		cmocka_unit_test(slow_reader_is_never_killed),
		cmocka_unit_test(data_counts_as_heard),
		cmocka_unit_test(own_stall_kills_nobody),
		cmocka_unit_test(stall_while_suspect_is_no_recovery),
		cmocka_unit_test(announced_pause_stops_the_clock),
		cmocka_unit_test(heartbeat_ends_a_pause),
		cmocka_unit_test(announced_pause_is_bounded),
		cmocka_unit_test(traffic_saves_heartbeats),
		cmocka_unit_test(stopped_then_unreachable_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
