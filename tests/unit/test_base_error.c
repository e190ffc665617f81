/* SPDX-License-Identifier: Apache-2.0 */
/* The thread's last error and the status texts. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>

#include "base/error.h"

static void every_status_has_texts(void **state)
{
	(void)state;
#define CHECK_STATUS(name, value, text_of, next_of)                                                \
	assert_string_equal(error_status_name(TCPX_##name), #name);                                \
	assert_true(strlen(error_status_text(TCPX_##name)) > 0);                                   \
	assert_string_equal(error_status_next(TCPX_##name), next_of);                              \
	assert_true(strlen(next_of) < sizeof(((tcpx_error *)0)->next));
	TCPX_STATUS_MAP(CHECK_STATUS)
#undef CHECK_STATUS
	assert_string_equal(error_status_text((tcpx_status)12345), "unknown status");
	assert_string_equal(error_status_name((tcpx_status)-1000), "unknown status");
	assert_string_equal(error_status_next((tcpx_status)12345), "");
}

static void set_fills_and_keeps_errno(void **state)
{
	(void)state;
	errno = EDOM;
	assert_int_equal(error_set(TCPX_ERR_REFUSED, ECONNREFUSED, "connect to %s:%d", "h", 7),
			 TCPX_ERR_REFUSED);
	assert_int_equal(errno, EDOM);
	assert_int_equal(error_last()->status, TCPX_ERR_REFUSED);
	assert_int_equal(error_last()->system_errno, ECONNREFUSED);
	assert_string_equal(error_last()->what, "connect to h:7");
	assert_string_equal(error_last()->next, error_status_next(TCPX_ERR_REFUSED));
	assert_int_equal(error_next("start it on %s", "h"), TCPX_ERR_REFUSED);
	assert_string_equal(error_last()->next, "start it on h");
}

/* Whatever the C library has for it. */
static void every_errno_has_a_text(void **state)
{
	(void)state;
	assert_string_equal(error_errno_text(ECONNREFUSED), "Connection refused");
	assert_true(strlen(error_errno_text(123456)) > 0);
}

static void arguments_may_be_the_last_error(void **state)
{
	(void)state;
	(void)error_set(TCPX_ERR_SYSTEM, 0, "inner");
	(void)error_set(TCPX_ERR_ADDRESS, 0, "outer: %s", error_last()->what);
	assert_string_equal(error_last()->what, "outer: inner");
	(void)error_next("%s!", error_last()->next);
	assert_string_equal(error_last()->next, "choose another address or port!");
}

/* Of words of seven letters. */
static void ends_with_a_word(const char *text, size_t size)
{
	size_t len = strlen(text);

	assert_in_range(len, size - 12, size - 1);
	assert_string_equal(text + len - 3, "...");
	assert_int_equal((len - 3) % 8, 7);
}

static void long_texts_are_cut(void **state)
{
	char text[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = i % 8 == 7 ? ' ' : 'x';
	text[sizeof(text) - 1] = '\0';
	(void)error_set(TCPX_ERR_INVALID, 0, "%s", text);
	ends_with_a_word(error_last()->what, sizeof(error_last()->what));
	(void)error_next("%s", text);
	ends_with_a_word(error_last()->next, sizeof(error_last()->next));
}

static void stored_ones_are_separate(void **state)
{
	tcpx_error stored = {.sz = sizeof(stored)};

	(void)state;
	(void)error_set(TCPX_ERR_INVALID, 0, "mine");
	error_fill(&stored, TCPX_ERR_PEER_RESET, ECONNRESET, "peer %s", "b");
	assert_string_equal(error_last()->what, "mine");
	stored.bytes_done = 5;
	assert_int_equal(error_raise(&stored), TCPX_ERR_PEER_RESET);
	assert_string_equal(error_last()->what, "peer b");
	assert_int_equal(error_last()->bytes_done, 5);
	assert_int_equal(error_raise(error_last()), TCPX_ERR_PEER_RESET);
	(void)error_set(TCPX_ERR_INVALID, 0, "again");
	assert_int_equal(error_last()->bytes_done, 0);
}

static void *other_thread(void *arg)
{
	*(tcpx_status *)arg = error_last()->status;
	(void)error_set(TCPX_ERR_LIMIT, 0, "theirs");
	return NULL;
}

static void threads_have_their_own(void **state)
{
	tcpx_status seen = TCPX_ERR_INTERNAL;
	pthread_t thread;

	(void)state;
	(void)error_set(TCPX_ERR_INVALID, 0, "mine");
	assert_int_equal(pthread_create(&thread, NULL, other_thread, &seen), 0);
	pthread_join(thread, NULL);
	assert_int_equal(seen, TCPX_OK);
	assert_string_equal(error_last()->what, "mine");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_status_has_texts),
		cmocka_unit_test(set_fills_and_keeps_errno),
		cmocka_unit_test(every_errno_has_a_text),
		cmocka_unit_test(arguments_may_be_the_last_error),
		cmocka_unit_test(long_texts_are_cut),
		cmocka_unit_test(stored_ones_are_separate),
		cmocka_unit_test(threads_have_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
