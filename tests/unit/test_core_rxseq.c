/* SPDX-License-Identifier: Apache-2.0 */
/* The sequences that arrive on a channel, without a channel: acknowledgements and refusals. */
#include "core/rxseq.h"
#include "unit.h"

static struct core_nack memory[64];

static struct core_rxseq opened(void)
{
	struct core_rxseq rx = {.nacks = memory, .cap_nacks = 64};

	core_rxseq_open(&rx);
	return rx;
}

static void begin(struct core_rxseq *rx, uint64_t count, bool ask)
{
	for (uint64_t seq = rx->begun + 1, last = rx->begun + count; seq <= last; seq++) {
		assert_true(core_rxseq_fits(rx, seq));
		core_rxseq_begin(rx, seq);
		if (ask)
			core_rxseq_asked(rx, seq);
	}
}

static void refuse(struct core_rxseq *rx, uint64_t seq)
{
	assert_int_equal(core_rxseq_nacks_wanted(rx), 0);
	core_rxseq_refuse(rx, seq, 0, -1);
	(void)core_rxseq_apply(rx, seq);
}

static void test_only_the_next_fits(void **state)
{
	struct core_rxseq rx = opened();

	(void)state;
	assert_false(core_rxseq_fits(&rx, 0));
	assert_false(core_rxseq_fits(&rx, 2));
	begin(&rx, CORE_RING, false);
	assert_false(core_rxseq_fits(&rx, CORE_RING + 1)); /* the sender's ring is full */
	(void)core_rxseq_apply(&rx, 1);
	assert_true(core_rxseq_fits(&rx, CORE_RING + 1));
}

static void test_applied_follows_the_gap(void **state)
{
	struct core_rxseq rx = opened();

	(void)state;
	for (uint64_t round = 0; round < 5; round++) {
		uint64_t first = rx.applied + 1;

		begin(&rx, 100, false);
		for (uint64_t i = 99; i > 0; i--) {
			(void)core_rxseq_apply(&rx, first + i);
			assert_true(core_rxseq_through(&rx, first + i));
			assert_int_equal(rx.applied, first - 1);
		}
		assert_false(core_rxseq_through(&rx, first));
		(void)core_rxseq_apply(&rx, first);
		assert_int_equal(rx.applied, first + 99);
	}
}

static void test_nothing_is_due_unasked(void **state)
{
	struct core_rxseq rx = opened();
	uint64_t applied, taken;

	(void)state;
	begin(&rx, 3, false);
	assert_false(core_rxseq_apply(&rx, 1));
	assert_false(core_rxseq_ack_next(&rx, false, &applied, &taken));
}

static void test_oldest_that_asked_is_answered(void **state)
{
	struct core_rxseq rx = opened();
	uint64_t applied, taken;

	(void)state;
	begin(&rx, 4, true);
	assert_false(core_rxseq_apply(&rx, 2));
	assert_true(core_rxseq_apply(&rx, 1));
	assert_true(core_rxseq_ack_next(&rx, true, &applied, &taken));
	assert_int_equal(applied, 2);
	assert_int_equal(taken, 3); /* the fourth is still in the transport */
	assert_false(core_rxseq_ack_next(&rx, true, &applied, &taken));
	/* Those that asked meanwhile are answered too. */
	assert_true(core_rxseq_apply(&rx, 3));
	assert_true(core_rxseq_ack_next(&rx, false, &applied, &taken));
	assert_int_equal(applied, 3);
	assert_int_equal(taken, 4);
}

static void test_refusal_goes_before_its_acknowledgement(void **state)
{
	const struct core_nack *nack;
	struct core_rxseq rx = opened();
	uint64_t applied, taken;

	(void)state;
	begin(&rx, 3, true);
	(void)core_rxseq_apply(&rx, 1);
	refuse(&rx, 2);
	(void)core_rxseq_apply(&rx, 3);
	assert_true(core_rxseq_ack_next(&rx, false, &applied, &taken));
	assert_int_equal(applied, 1);
	assert_false(core_rxseq_ack_next(&rx, false, &applied, &taken));
	nack = core_rxseq_nack_next(&rx);
	assert_non_null(nack);
	assert_int_equal(nack->seq, 2);
	assert_null(core_rxseq_nack_next(&rx));
	assert_true(core_rxseq_ack_next(&rx, false, &applied, &taken));
	assert_int_equal(applied, 3);
}

static void test_refusals_are_told_in_order(void **state)
{
	struct core_rxseq rx = opened();

	(void)state;
	begin(&rx, 40, false);
	for (uint64_t seq = 40; seq > 1; seq--) {
		refuse(&rx, seq);
		assert_null(core_rxseq_nack_next(&rx));
	}
	assert_true(core_rxseq_apply(&rx, 1)); /* they waited for it */
	for (uint64_t seq = 2; seq <= 40; seq++)
		assert_int_equal(core_rxseq_nack_next(&rx)->seq, seq);
	assert_null(core_rxseq_nack_next(&rx));
}

/* A fence repeats those whose frames are not known to have arrived. */
static void test_refusals_are_forgotten_when_known(void **state)
{
	struct core_rxseq rx = opened();

	(void)state;
	begin(&rx, 2, false);
	refuse(&rx, 1);
	refuse(&rx, 2);
	(void)core_rxseq_nack_next(&rx);
	assert_int_equal(rx.nnacks, 2);
	core_rxseq_nack_forget(&rx, 1);
	core_rxseq_nack_forget(&rx, 1);
	assert_int_equal(rx.nnacks, 1);
	assert_int_equal(rx.nacks[0].seq, 2);
}

static void test_memory_doubles(void **state)
{
	struct core_nack first[16], second[32];
	struct core_rxseq rx = {0};

	(void)state;
	core_rxseq_open(&rx);
	begin(&rx, 17, false);
	assert_int_equal(core_rxseq_nacks_wanted(&rx), 16);
	assert_null(core_rxseq_nacks_move(&rx, first, 16));
	for (uint64_t seq = 1; seq <= 16; seq++)
		refuse(&rx, seq);
	assert_int_equal(core_rxseq_nacks_wanted(&rx), 32);
	assert_ptr_equal(core_rxseq_nacks_move(&rx, second, 32), first);
	refuse(&rx, 17);
	for (uint64_t seq = 1; seq <= 17; seq++)
		assert_int_equal(core_rxseq_nack_next(&rx)->seq, seq);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_the_next_fits),
		cmocka_unit_test(test_applied_follows_the_gap),
		cmocka_unit_test(test_nothing_is_due_unasked),
		cmocka_unit_test(test_oldest_that_asked_is_answered),
		cmocka_unit_test(test_refusal_goes_before_its_acknowledgement),
		cmocka_unit_test(test_refusals_are_told_in_order),
		cmocka_unit_test(test_refusals_are_forgotten_when_known),
		cmocka_unit_test(test_memory_doubles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
