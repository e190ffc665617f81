/* SPDX-License-Identifier: Apache-2.0 */
/* Text for people in a buffer of fixed size. */
#include "unit.h"

#include <errno.h>

#include "base/text.h"

static void expect(size_t size, const char *text, const char *want)
{
	char out[64];
	size_t len;

	memset(out, '#', sizeof(out));
	errno = EDOM;
	len = text_format(out, size, "%s", text);
	assert_int_equal(errno, EDOM);
	assert_string_equal(out, want);
	assert_int_equal(len, strlen(want));
	for (size_t i = size; i < sizeof(out); i++)
		assert_int_equal(out[i], '#');
}

static void what_fits_is_left_alone(void **state)
{
	(void)state;
	expect(12, "one two six", "one two six");
	expect(1, "", "");
	expect(64, "", "");
}

static void what_does_not_is_cut_between_words(void **state)
{
	(void)state;
	expect(11, "one two six", "one two...");
	expect(21, "peer a: 512 bytes of 1024, none came", "peer a: 512 bytes...");
	expect(22, "peer a: 512 bytes, of 1024, none came", "peer a: 512 bytes...");
}

/* A path, or a list without spaces: as much as there is room for. */
static void a_long_word_is_cut_within(void **state)
{
	(void)state;
	expect(12, "abcdefghijklmnop", "abcdefgh...");
	expect(20, "at /a/folder/with/a/long/name", "at /a/folder/wit...");
}

static void no_room_is_no_text(void **state)
{
	char out[1] = {'#'};

	(void)state;
	assert_int_equal(text_format(out, 0, "%s", "abc"), 0);
	assert_int_equal(out[0], '#');
	expect(1, "abc", "");
	expect(4, "abcd", "abc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fits_is_left_alone),
		cmocka_unit_test(what_does_not_is_cut_between_words),
		cmocka_unit_test(a_long_word_is_cut_within),
		cmocka_unit_test(no_room_is_no_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
