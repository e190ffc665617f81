/* SPDX-License-Identifier: Apache-2.0 */
/* One kind of credit alone, in both directions. */
#include "core/credit.h"
#include "unit.h"

#define BUDGET 800

static void test_sender_uses_what_it_has(void **state)
{
	struct core_credit credit;

	(void)state;
	core_credit_init(&credit, BUDGET, 0, false);
	assert_true(core_credit_acquire(&credit, BUDGET - 1));
	assert_false(core_credit_acquire(&credit, 2));
	assert_int_equal(core_credit_left(&credit), 1);
	core_credit_refund(&credit, 9);
	assert_int_equal(core_credit_left(&credit), 10);
}

static void test_peer_returns_at_most_what_was_used(void **state)
{
	struct core_credit credit;

	(void)state;
	core_credit_init(&credit, BUDGET, 0, false);
	assert_true(core_credit_acquire(&credit, 100));
	assert_false(core_credit_returned(&credit, 101));
	assert_true(core_credit_returned(&credit, 60));
	assert_int_equal(core_credit_left(&credit), BUDGET - 40);
	assert_false(core_credit_returned(&credit, 50)); /* an older frame */
	assert_int_equal(core_credit_left(&credit), BUDGET - 40);
}

static void test_receiver_refuses_what_is_not_paid(void **state)
{
	struct core_credit credit;
	bool tell;

	(void)state;
	core_credit_init(&credit, 0, BUDGET, false);
	assert_true(core_credit_charge(&credit, BUDGET, &tell));
	assert_false(core_credit_charge(&credit, 1, &tell));
	assert_int_equal(core_credit_held(&credit), BUDGET);
	core_credit_uncharge(&credit, 1);
	assert_true(core_credit_charge(&credit, 1, &tell));
}

/* An eighth at a time, while the sender has more than an eighth. */
static void test_told_at_an_eighth(void **state)
{
	struct core_credit credit;
	bool tell;

	(void)state;
	core_credit_init(&credit, 0, BUDGET, false);
	assert_true(core_credit_charge(&credit, 200, &tell));
	assert_false(tell);
	assert_false(core_credit_return(&credit, 99, true));
	assert_false(credit.due);
	assert_true(core_credit_return(&credit, 1, false));
	assert_true(credit.due);
	assert_int_equal(core_credit_advertise(&credit), 100);
	assert_false(credit.due);
}

/* What was kept back for later is told when the sender becomes short, by the payment that does it;
 * then each byte is told. */
static void test_told_to_one_that_runs_short(void **state)
{
	struct core_credit credit;
	bool tell;

	(void)state;
	core_credit_init(&credit, 0, BUDGET, false);
	assert_true(core_credit_charge(&credit, 600, &tell));
	assert_false(core_credit_return(&credit, 10, false));
	assert_true(core_credit_charge(&credit, 101, &tell));
	assert_true(tell && credit.due);
	assert_int_equal(core_credit_advertise(&credit), 10);
	assert_true(core_credit_charge(&credit, 100, &tell));
	assert_false(tell); /* there is nothing to tell */
	assert_true(core_credit_return(&credit, 1, false));
}

static void test_small_budget_is_told_at_once(void **state)
{
	struct core_credit credit;
	bool tell;

	(void)state;
	core_credit_init(&credit, 0, BUDGET, true);
	assert_true(core_credit_charge(&credit, 10, &tell));
	assert_false(core_credit_return(&credit, 5, false));
	assert_true(core_credit_return(&credit, 5, true));
}

/* A frame that was lost is repeated; one that was never sent is not. */
static void test_told_again(void **state)
{
	struct core_credit credit;
	bool tell;

	(void)state;
	core_credit_init(&credit, 0, BUDGET, false);
	core_credit_readvertise(&credit);
	assert_false(credit.due);
	assert_true(core_credit_charge(&credit, BUDGET, &tell));
	assert_true(core_credit_return(&credit, 7, false));
	assert_int_equal(core_credit_advertise(&credit), 7);
	core_credit_readvertise(&credit);
	assert_true(credit.due);
	assert_int_equal(core_credit_advertise(&credit), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sender_uses_what_it_has),
		cmocka_unit_test(test_peer_returns_at_most_what_was_used),
		cmocka_unit_test(test_receiver_refuses_what_is_not_paid),
		cmocka_unit_test(test_told_at_an_eighth),
		cmocka_unit_test(test_told_to_one_that_runs_short),
		cmocka_unit_test(test_small_budget_is_told_at_once),
		cmocka_unit_test(test_told_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
