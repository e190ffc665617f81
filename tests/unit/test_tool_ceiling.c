/* SPDX-License-Identifier: Apache-2.0 */
/* The ceiling of a path is its narrowest part, and the rings of plain sockets keep their bytes. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ceiling_gpu.h"
#include "ceiling_lane.h"
#include "unit.h"

static void expect(struct ceiling_rates rates, unsigned directions, double want)
{
	double got = ceiling_smallest(&rates, directions);

	if (got < want || got > want)
		fail_msg("%.1f, not %.1f", got, want);
}

static void the_narrowest_part_counts(void **state)
{
	(void)state;
	expect((struct ceiling_rates){.tcp = 5}, 1, 5);
	expect((struct ceiling_rates){.tcp = 5, .d2h = {3}}, 1, 3);
	expect((struct ceiling_rates){.tcp = 5, .d2h = {30}}, 1, 5);
	expect((struct ceiling_rates){.tcp = 5, .d2h = {3}, .h2d = {2}}, 1, 2);
	expect((struct ceiling_rates){.tcp = 5, .h2d = {0, 2}}, 2, 2);
	expect((struct ceiling_rates){.d2h = {3}}, 1, 3);
	expect((struct ceiling_rates){.tcp = 0}, 1, 0);
}

static void both_directions_add_up(void **state)
{
	(void)state;
	expect((struct ceiling_rates){.tcp = 50, .d2h = {3, 7}, .h2d = {4, 5}}, 3, 3 + 5);
	expect((struct ceiling_rates){.tcp = 6, .d2h = {3, 7}, .h2d = {4, 5}}, 3, 6);
	/* one GPU: its way out, and its way in */
	expect((struct ceiling_rates){.tcp = 50, .d2h = {3, 0}, .h2d = {0, 4}}, 3, 7);
	/* what was measured for a direction that does not run is no limit */
	expect((struct ceiling_rates){.tcp = 50, .d2h = {3, 1}, .h2d = {4, 1}}, 1, 3);
}

static void peer_is_the_ceiling_of_a_path_that_may_copy_directly(void **state)
{
	(void)state;
	expect((struct ceiling_rates){.tcp = 5, .d2h = {3}, .h2d = {3}, .peer = 90}, 1, 3);
	expect((struct ceiling_rates){.tcp = 5, .d2h = {3}, .h2d = {3}, .peer = 90, .direct = 1}, 1,
	       90);
	expect((struct ceiling_rates){.tcp = 5, .d2h = {3}, .h2d = {3}, .direct = 1}, 1, 3);
}

static tcpx_status go_on(const void *arg)
{
	(void)arg;
	return TCPX_OK;
}

/* Each lane moves its part of the window, whatever the ring holds. */
static void a_ring_is_walked_through(void **state)
{
	static const size_t rings[] = {0, 7, 999, 1000, 5000};
	static const struct perf_leave leave = {go_on, NULL};

	(void)state;
	for (unsigned i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		size_t total = 0, mapped = 0, want = rings[i] && rings[i] < 1000 ? rings[i] : 1000;
		struct ceiling_end from, to;
		int fds[2];

		assert_int_equal(ceiling_end_init(&from, 3, 1, 1000, rings[i], 0), 0);
		assert_int_equal(ceiling_end_init(&to, 3, 1, 1000, 0, 1), 0);
		assert_int_equal(ceiling_end_fill(&from, 0, 1, &leave), TCPX_OK);
		for (unsigned l = 0; l < 3; l++) {
			assert_int_equal(from.lanes[l].bytes, to.lanes[l].bytes);
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
			from.lanes[l].fd = fds[0];
			to.lanes[l].fd = fds[1];
			assert_int_equal(ceiling_lane_send(&from.lanes[l]), 0);
			assert_int_equal(ceiling_lane_receive(&to.lanes[l]), 0);
			assert_int_equal(recv(fds[1], fds, 1, MSG_DONTWAIT), -1);
			assert_int_equal(errno, EAGAIN);
			total += from.lanes[l].bytes;
			mapped += from.lanes[l].share_bytes;
		}
		assert_int_equal(total, 1000);
		assert_int_equal(mapped, want);
		ceiling_end_fini(&from);
		ceiling_end_fini(&to);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_narrowest_part_counts),
		cmocka_unit_test(both_directions_add_up),
		cmocka_unit_test(peer_is_the_ceiling_of_a_path_that_may_copy_directly),
		cmocka_unit_test(a_ring_is_walked_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
