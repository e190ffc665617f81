/* SPDX-License-Identifier: Apache-2.0 */
/* Wishes and grants of staging, without a link: each side alone, and the two together. */
#include "core/stage_quota.h"
#include "unit.h"

static void test_wish_is_told(void **state)
{
	struct core_stage_out out = {0};
	struct frame frame = {0};

	(void)state;
	assert_false(core_stage_out_next(&out, &frame));
	assert_true(core_stage_out_request(&out, 100));
	core_stage_out_withdraw(&out, 30);
	assert_true(core_stage_out_next(&out, &frame));
	assert_int_equal(frame.type, FRAME_STAGE_REQ);
	assert_int_equal(frame.linear, 100);
	assert_int_equal(frame.key, 30);
	assert_int_equal(frame.offset, 0);
	assert_false(core_stage_out_next(&out, &frame));
	core_stage_out_repeat(&out);
	assert_true(core_stage_out_next(&out, &frame));
}

/* A wish that what may be kept ahead covers by more than half is not worth a frame. */
static void test_wish_within_what_is_kept(void **state)
{
	struct core_stage_out out = {0};
	struct frame frame = {0};

	(void)state;
	(void)core_stage_out_request(&out, 10);
	assert_int_equal(core_stage_out_grant(&out, 110, 100), 110);
	core_stage_out_use(&out, 10);
	(void)core_stage_out_next(&out, &frame);
	assert_false(core_stage_out_request(&out, 50));
	assert_false(out.due);
	assert_true(core_stage_out_request(&out, 1));
}

static void test_surplus_goes_back(void **state)
{
	struct core_stage_out out = {0};
	struct frame frame = {0};

	(void)state;
	(void)core_stage_out_request(&out, 100);
	(void)core_stage_out_next(&out, &frame);
	assert_int_equal(core_stage_out_grant(&out, 100, 20), 100);
	assert_int_equal(core_stage_out_left(&out), 100);
	core_stage_out_withdraw(&out, 100);
	assert_int_equal(core_stage_out_left(&out), 20);
	assert_true(core_stage_out_next(&out, &frame));
	assert_int_equal(frame.offset, 80);
}

static void test_old_grant_says_nothing(void **state)
{
	struct core_stage_out out = {0};

	(void)state;
	(void)core_stage_out_request(&out, 100);
	assert_int_equal(core_stage_out_grant(&out, 50, 0), 50);
	assert_int_equal(core_stage_out_grant(&out, 50, 30), 0);
	assert_int_equal(core_stage_out_grant(&out, 40, 30), 0);
	assert_int_equal(out.ahead, 0);
	assert_int_equal(core_stage_out_left(&out), 50);
}

/* The bytes are wanted again unless their request has ended; the grant is gone either way. */
static void test_lost_frame(void **state)
{
	struct core_stage_out out = {0};

	(void)state;
	(void)core_stage_out_request(&out, 100);
	(void)core_stage_out_grant(&out, 100, 0);
	core_stage_out_use(&out, 60);
	core_stage_out_lost(&out, 60, true);
	assert_int_equal(out.requested, 160);
	assert_int_equal(out.dropped, 60);
	core_stage_out_lost(&out, 40, false);
	assert_int_equal(out.requested, 160);
	assert_int_equal(out.dropped, 100);
	assert_true(out.due);
}

static void test_receiver_counts(void **state)
{
	struct frame request = {.linear = 100, .key = 20};
	struct core_stage_in in = {0};
	uint64_t back = 1, ahead;

	(void)state;
	assert_true(core_stage_in_requested(&in, &request, &back));
	assert_int_equal(back, 0);
	assert_int_equal(core_stage_in_missing(&in), 80);
	in.ahead = 10;
	assert_int_equal(core_stage_in_missing(&in), 90);
	core_stage_in_grant(&in, 60);
	assert_int_equal(core_stage_in_missing(&in), 30);
	assert_true(in.due);
	assert_int_equal(core_stage_in_advertise(&in, &ahead), 60);
	assert_int_equal(ahead, 10);
	assert_false(in.due);
	assert_false(core_stage_in_arrive(&in, 61));
	assert_true(core_stage_in_arrive(&in, 60));
	core_stage_in_undo(&in, 60);
	assert_int_equal(core_stage_in_close(&in), 60);
	assert_int_equal(core_stage_in_left(&in), 0);
}

/* Sums only grow; what goes back is at most what was granted and not used. */
static void test_receiver_believes_no_more(void **state)
{
	struct frame request = {.linear = 100}, old = {.linear = 99},
		     more = {.linear = 9, .key = 10};
	struct core_stage_in in = {0};
	uint64_t back;

	(void)state;
	assert_true(core_stage_in_requested(&in, &request, &back));
	assert_false(core_stage_in_requested(&in, &old, &back));
	core_stage_in_grant(&in, 50);
	assert_true(core_stage_in_arrive(&in, 20));
	request.offset = 1000;
	assert_true(core_stage_in_requested(&in, &request, &back));
	assert_int_equal(back, 30);
	assert_int_equal(core_stage_in_left(&in), 0);
	in = (struct core_stage_in){0};
	assert_false(core_stage_in_requested(&in, &more, &back));
}

/* Each side has the same account in the end, whatever is withdrawn. */
static void test_both_sides_agree(void **state)
{
	struct core_stage_out out = {0};
	struct core_stage_in in = {0};
	uint64_t pool = 1000, back, ahead;
	struct frame frame;

	(void)state;
	for (uint32_t i = 1; i <= 50; i++) {
		(void)core_stage_out_request(&out, 10 * i);
		if (i % 3 == 0)
			core_stage_out_withdraw(&out, 5 * i);
		for (int turn = 0; turn < 2; turn++) {
			if (core_stage_out_next(&out, &frame)) {
				assert_true(core_stage_in_requested(&in, &frame, &back));
				pool += back;
			}
			if (core_stage_in_missing(&in) && core_stage_in_missing(&in) <= pool) {
				pool -= core_stage_in_missing(&in);
				core_stage_in_grant(&in, core_stage_in_missing(&in));
			}
			back = core_stage_in_advertise(&in, &ahead);
			(void)core_stage_out_grant(&out, back, ahead);
			back = core_stage_out_left(&out);
			assert_true(core_stage_in_arrive(&in, back));
			core_stage_out_use(&out, back);
			pool += back;
		}
	}
	assert_int_equal(core_stage_in_left(&in), 0);
	assert_int_equal(core_stage_out_left(&out), 0);
	assert_int_equal(pool, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wish_is_told),
		cmocka_unit_test(test_wish_within_what_is_kept),
		cmocka_unit_test(test_surplus_goes_back),
		cmocka_unit_test(test_old_grant_says_nothing),
		cmocka_unit_test(test_lost_frame),
		cmocka_unit_test(test_receiver_counts),
		cmocka_unit_test(test_receiver_believes_no_more),
		cmocka_unit_test(test_both_sides_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
