/* SPDX-License-Identifier: Apache-2.0 */
/* The table of notifications that arrive, without a link. */
#include <stdlib.h>

#include "core/notify.h"
#include "core/link_ops.h"
#include "unit.h"

struct account {
	bool empty;	/* no memory for a larger table */
	int64_t chunks; /* allocated */
};

static void *on_alloc(void *arg, size_t bytes, size_t there)
{
	struct account *account = arg;

	(void)there;
	if (account->empty)
		return NULL;
	account->chunks++;
	return malloc(bytes);
}

static void on_free(void *arg, void *ptr, size_t there)
{
	(void)there;
	((struct account *)arg)->chunks--;
	free(ptr);
}

static const struct core_ops ops = {.note_alloc = on_alloc, .note_free = on_free};

static void open_table(struct core_incoming *in, struct account *account)
{
	struct core_config cfg = {.secret = "no peer knows it", .ops = &ops, .arg = account};

	memset(in, 0, sizeof(*in));
	core_incoming_init(in, &cfg);
}

static struct core_notify_in *add(struct core_incoming *in, uint64_t number, bool standalone)
{
	struct core_notify_in *msg = on_alloc(in->arg, sizeof(*msg), sizeof(*msg));

	memset(msg, 0, sizeof(*msg));
	msg->number = number;
	msg->standalone = standalone;
	core_incoming_add(in, msg);
	return msg;
}

static void test_found_by_number_and_kind(void **state)
{
	struct account account = {0};
	struct core_notify_in *alone, *attached;
	struct core_incoming in;

	(void)state;
	open_table(&in, &account);
	assert_null(core_incoming_find(&in, 7, true));
	alone = add(&in, 7, true);
	assert_null(core_incoming_find(&in, 7, false));
	attached = add(&in, 7, false);
	assert_ptr_equal(core_incoming_find(&in, 7, true), alone);
	assert_ptr_equal(core_incoming_find(&in, 7, false), attached);
	core_incoming_remove(&in, alone);
	assert_null(core_incoming_find(&in, 7, true));
	on_free(&account, alone, 0);
	core_incoming_fini(&in);
	assert_int_equal(account.chunks, 0);
}

static void check_many(bool all)
{
	enum { MANY = 1000 };
	struct account account = {0};
	struct core_notify_in *msg;
	struct core_incoming in;

	open_table(&in, &account);
	for (uint64_t number = 1; number <= MANY; number++)
		add(&in, number * 4096, false);
	for (uint64_t number = 1; number <= MANY; number++) {
		msg = core_incoming_find(&in, number * 4096, false);
		assert_non_null(msg);
		if (!all && number % 2)
			continue;
		core_incoming_remove(&in, msg);
		on_free(&account, msg, 0);
	}
	core_incoming_fini(&in);
	assert_int_equal(account.chunks, 0);
	assert_ptr_equal(in.heads, in.few);
}

static void test_many_are_found(void **state)
{
	(void)state;
	check_many(true);
}

static void test_those_that_are_left_are_freed(void **state)
{
	(void)state;
	check_many(false);
}

/* Without memory for a larger table the chains become longer. */
static void test_no_memory_for_the_table(void **state)
{
	struct core_notify_in msgs[100];
	struct account account = {.empty = true};
	struct core_incoming in;

	(void)state;
	open_table(&in, &account);
	memset(msgs, 0, sizeof(msgs));
	for (uint32_t i = 0; i < 100; i++) {
		msgs[i].number = i + 1;
		core_incoming_add(&in, &msgs[i]);
	}
	assert_ptr_equal(in.heads, in.few);
	for (uint32_t i = 0; i < 100; i++)
		assert_ptr_equal(core_incoming_find(&in, i + 1, false), &msgs[i]);
	for (uint32_t i = 0; i < 100; i++)
		core_incoming_remove(&in, &msgs[i]);
	core_incoming_fini(&in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found_by_number_and_kind),
		cmocka_unit_test(test_many_are_found),
		cmocka_unit_test(test_those_that_are_left_are_freed),
		cmocka_unit_test(test_no_memory_for_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
