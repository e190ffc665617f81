/* SPDX-License-Identifier: Apache-2.0 */
/* How much may be posted into a page pool that several channels share. */
#include "unit.h"

#include "base/clock.h"
#include "plugin/messages_pool.h"

#define AT 0x70000000u
#define PAGE MESSAGES_POOL_PAGE
#define PAGES 64u  /* of the driver's memory: more than the pool gives */
#define MESSAGE 8u /* pages of one */
#define BYTES (MESSAGE * (uint64_t)PAGE)
#define DEPTH 4u /* messages that a channel may have posted */
#define STUCK_NS (100 * CLOCK_MS_NS)

static int64_t now_ns = CLOCK_S_NS;

static void join(struct messages_pool_user *user)
{
	assert_int_equal(messages_pool_join(user, AT, PAGES * PAGE, DEPTH * BYTES), TCPX_OK);
}

static uint64_t take(struct messages_pool_user *user)
{
	return messages_pool_take(user, BYTES, now_ns);
}

/* A message of full pages, from page first on. */
static void done(struct messages_pool_user *user, uint64_t pages, unsigned first)
{
	struct base_frag frags[MESSAGE];

	for (unsigned i = 0; i < MESSAGE; i++)
		frags[i] = (struct base_frag){(first + i) * PAGE, PAGE, (uint64_t)i * PAGE};
	messages_pool_done(user, pages, BYTES, frags, MESSAGE, now_ns);
}

static struct messages_pool_info info(struct messages_pool_user *user)
{
	struct messages_pool_info out;

	messages_pool_info(user, BYTES, &out);
	return out;
}

/* Never more than was seen, but one message always. */
static void the_bound_grows_with_what_is_seen(void **state)
{
	struct messages_pool_user user;
	uint64_t pages[DEPTH + 1];

	(void)state;
	join(&user);
	pages[0] = take(&user);
	assert_int_equal(pages[0], MESSAGE);
	assert_int_equal(take(&user), 0);
	done(&user, pages[0], 0);
	assert_int_equal(info(&user).known, MESSAGE);
	pages[0] = take(&user);
	assert_int_equal(pages[0], MESSAGE);
	assert_int_equal(take(&user), 0); /* the same pages may be all that there are */
	done(&user, pages[0], 0);
	assert_int_equal(info(&user).known, MESSAGE);
	done(&user, take(&user), MESSAGE); /* others, while the first ones were out */
	assert_int_equal(info(&user).known, 2 * MESSAGE);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pages[i] = take(&user), MESSAGE);
	assert_int_equal(take(&user), 0);
	for (unsigned i = 0; i < 2; i++)
		done(&user, pages[i], (2 + i) * MESSAGE);
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(take(&user), MESSAGE);
	messages_pool_leave(&user);
}

/* Channels of a GPU are bound together, and each has its turn. */
static void users_share_and_take_turns(void **state)
{
	struct messages_pool_user users[3];
	uint64_t pages;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		join(&users[i]);
	pages = take(&users[0]);
	assert_int_equal(pages, MESSAGE);
	for (unsigned i = 1; i < 3; i++)
		assert_int_equal(take(&users[i]), 0);
	assert_int_equal(take(&users[0]), 0); /* it waits for the other two */
	done(&users[0], pages, 0);
	assert_int_equal(take(&users[0]), 0);
	assert_int_equal(take(&users[2]), 0);
	pages = take(&users[1]);
	assert_int_equal(pages, MESSAGE);
	done(&users[1], pages, 0);
	assert_int_equal(take(&users[0]), 0);
	now_ns += 20 * CLOCK_MS_NS; /* a worker that does not come round keeps nobody waiting */
	assert_int_equal(take(&users[0]), MESSAGE);
	messages_pool_leave(&users[0]); /* its channel is lost: what it posted is free */
	assert_int_equal(take(&users[2]), MESSAGE);
	messages_pool_leave(&users[1]);
	messages_pool_leave(&users[2]);
	join(&users[0]); /* a pool that nobody uses is not remembered */
	assert_int_equal(info(&users[0]).known, 0);
	messages_pool_leave(&users[0]);
}

/* More and shorter fragments take more pages. */
static void ragged_messages_count_for_more(void **state)
{
	struct messages_pool_user user;
	struct base_frag frags[3 * MESSAGE];

	(void)state;
	join(&user);
	for (unsigned i = 0; i < 3 * MESSAGE; i++)
		frags[i] = (struct base_frag){i * PAGE + 7, 1 + i, i};
	messages_pool_done(&user, take(&user), BYTES, frags, 3 * MESSAGE, now_ns);
	assert_int_equal(info(&user).known, 3 * MESSAGE);
	assert_int_equal(info(&user).need, 3 * MESSAGE);
	assert_int_equal(take(&user), 3 * MESSAGE);
	assert_int_equal(take(&user), 0);
	messages_pool_leave(&user);
}

/* What a plugin writes is not believed. */
static void fragments_outside_are_not_pages(void **state)
{
	struct base_frag frags[] = {{PAGES * PAGE, 1, 0}, {UINT32_MAX, 1, 0}, {0, 1, 0}};
	struct messages_pool_user user;

	(void)state;
	join(&user);
	messages_pool_done(&user, take(&user), BYTES, frags, 3, now_ns);
	assert_int_equal(info(&user).known, 1);
	messages_pool_leave(&user);
}

/* A channel of which nothing comes does not keep the others from posting. */
static void stuck_users_are_left_out(void **state)
{
	struct messages_pool_user stuck, user;
	uint64_t pages, other;

	(void)state;
	join(&stuck);
	join(&user);
	pages = take(&stuck);
	assert_int_equal(take(&user), 0);
	now_ns += STUCK_NS + 1;
	messages_pool_stuck(&stuck, now_ns, STUCK_NS);
	messages_pool_stuck(&stuck, now_ns, STUCK_NS);
	assert_int_equal(take(&stuck), 0);
	other = take(&user);
	assert_int_equal(other, MESSAGE);
	done(&user, other, 0);
	assert_int_equal(info(&user).posted, 0);
	done(&stuck, pages, 0); /* it came after all */
	assert_int_equal(info(&user).posted, 0);
	assert_int_equal(take(&stuck), MESSAGE);
	messages_pool_leave(&stuck);
	messages_pool_leave(&user);
}

/* A stuck user has asked for another message before the other user did, and goes on asking. */
static void stuck_users_that_ask_keep_nobody_waiting(void **state)
{
	struct messages_pool_user stuck, user;
	uint64_t pages, other;

	(void)state;
	join(&stuck);
	join(&user);
	pages = take(&stuck);
	assert_int_equal(take(&stuck), 0); /* the first in the order of turns */
	assert_int_equal(take(&user), 0);
	now_ns += STUCK_NS + 1;
	messages_pool_stuck(&stuck, now_ns, STUCK_NS);
	messages_pool_stuck(&stuck, now_ns, STUCK_NS);
	assert_int_equal(take(&stuck), 0);
	other = take(&user);
	assert_int_equal(other, MESSAGE);
	done(&user, other, 0);
	done(&stuck, pages, 0);
	assert_int_equal(take(&stuck), MESSAGE);
	messages_pool_leave(&stuck);
	messages_pool_leave(&user);
}

/* Somebody else has the pages that were seen: begin anew. */
static void what_was_seen_is_forgotten_when_nothing_comes(void **state)
{
	struct messages_pool_user user;

	(void)state;
	join(&user);
	for (unsigned i = 0; i < 4; i++)
		done(&user, take(&user), i * MESSAGE);
	assert_int_equal(info(&user).known, 4 * MESSAGE);
	assert_int_equal(take(&user), MESSAGE);
	now_ns += STUCK_NS + 1;
	messages_pool_stuck(&user, now_ns, STUCK_NS);
	assert_int_equal(info(&user).known, 0);
	messages_pool_untake(&user, MESSAGE);
	assert_int_equal(info(&user).posted, 0);
	assert_int_equal(take(&user), MESSAGE);
	assert_int_equal(take(&user), 0);
	messages_pool_leave(&user);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bound_grows_with_what_is_seen),
		cmocka_unit_test(users_share_and_take_turns),
		cmocka_unit_test(ragged_messages_count_for_more),
		cmocka_unit_test(fragments_outside_are_not_pages),
		cmocka_unit_test(stuck_users_are_left_out),
		cmocka_unit_test(stuck_users_that_ask_keep_nobody_waiting),
		cmocka_unit_test(what_was_seen_is_forgotten_when_nothing_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
