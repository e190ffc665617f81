/* SPDX-License-Identifier: Apache-2.0 */
/* Values of command-line options: what parses, what is refused and how the refusal reads. */
#include "cli_values.h"
#include "unit.h"

#define KIB 1024ull
#define MIB (1024ull * 1024)

static const struct cli_rule sizes = {CLI_BYTES_LIST, 1, 1ull << 40, NULL};
static const struct cli_rule counts = {CLI_COUNT_LIST, 1, 64, NULL};

static void expect_list(const struct cli_rule *rule, const char *text, const uint64_t *want,
			unsigned count)
{
	struct cli_list list = {0};
	char why[160] = "";

	if (cli_value_parse(rule, text, &list, why, sizeof(why)))
		fail_msg("'%s' is refused: %s", text, why);
	assert_int_equal(list.count, count);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(list.values[i], want[i]);
}

#define EXPECT(rule, text, ...)                                                                    \
	do {                                                                                       \
		const uint64_t want_[] = {__VA_ARGS__};                                            \
		expect_list(rule, text, want_, sizeof(want_) / sizeof(want_[0]));                  \
	} while (0)

static void refuse(const struct cli_rule *rule, const char *text, const char *words)
{
	union {
		struct cli_list list;
		uint64_t u64;
		double seconds;
	} out, before;
	char why[160] = "";

	memset(&out, 0x5a, sizeof(out));
	before = out;
	assert_int_equal(cli_value_parse(rule, text, &out, why, sizeof(why)), -1);
	if (!strstr(why, words))
		fail_msg("'%s': \"%s\" does not say \"%s\"", text, why, words);
	assert_memory_equal(&out, &before, sizeof(out));
}

static void ranges_step_by_two_or_by_the_given_factor(void **state)
{
	(void)state;
	EXPECT(&sizes, "64K:512K", 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB);
	EXPECT(&sizes, "64K:1M:x4", 64 * KIB, 256 * KIB, MIB);
	EXPECT(&sizes, "1:8", 1, 2, 4, 8);
	EXPECT(&sizes, "3:10", 3, 6);
	EXPECT(&sizes, "7:7", 7);
}

static void lists_mix_ranges_and_single_sizes(void **state)
{
	(void)state;
	EXPECT(&sizes, "64MB,64M,67108864", 64 * MIB, 64 * MIB, 64 * MIB);
	EXPECT(&sizes, "9,1K:2K,5", 9, KIB, 2 * KIB, 5);
	EXPECT(&counts, "1,2,64", 1, 2, 64);
}

static void what_is_no_list_is_named(void **state)
{
	(void)state;
	refuse(&sizes, "", "'' is not a size");
	refuse(&sizes, "1M,", "'' is not a size");
	refuse(&sizes, "0", "out of range 1..1T");
	refuse(&sizes, "2T", "2T is out of range 1..1T");
	refuse(&sizes, "8:4", "is not ascending");
	refuse(&sizes, "4:8:2", "not a step");
	refuse(&sizes, "4:8:x1", "out of range 2..1024");
	refuse(&sizes, "4:8:x", "not a whole number");
	refuse(&sizes, "1:1T,1:1T", "more than 64 values");
	refuse(&counts, "1,65", "65 is out of range 1..64");
	refuse(&counts, "-1", "not a whole number");
	refuse(&counts, "1G", "is a size");
	refuse(&counts, "18446744073709551617", "out of range");
}

static void a_long_item_is_cut_in_the_message_not_in_the_value(void **state)
{
	char text[400];

	(void)state;
	memset(text, '1', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	refuse(&sizes, text, "too long");
}

static void seconds_are_finite_and_positive(void **state)
{
	const struct cli_rule rule = {CLI_SECONDS, 0, 60, NULL};
	char why[160];
	double value;

	(void)state;
	assert_int_equal(cli_value_parse(&rule, "0.5", &value, why, sizeof(why)), 0);
	assert_true(value > 0.49 && value < 0.51);
	assert_int_equal(cli_value_parse(&rule, "2s", &value, why, sizeof(why)), 0);
	refuse(&rule, "0", "out of range");
	refuse(&rule, "61", "out of range");
	refuse(&rule, "inf", "not a number of seconds");
	refuse(&rule, "1m", "not a number of seconds");
}

static void choices_are_found_by_their_whole_word(void **state)
{
	const struct cli_rule rule = {CLI_CHOICE, 0, 0, "tcp|local|auto"};
	uint64_t value;
	char why[160], word[8];

	(void)state;
	assert_int_equal(cli_value_parse(&rule, "local", &value, why, sizeof(why)), 0);
	assert_int_equal(value, 1);
	refuse(&rule, "loc", "invalid value 'loc'; choose from tcp|local|auto");
	refuse(&rule, "local|auto", "choose from");
	assert_string_equal(cli_choice_text(rule.choices, 2, word, sizeof(word)), "auto");
	assert_string_equal(cli_choice_text(rule.choices, 3, word, sizeof(word)), "");
}

static void a_choice_may_take_a_number(void **state)
{
	const struct cli_rule rule = {CLI_CHOICE, 0, 0, "host|cuda[:N]|slow"};
	const struct cli_rule rules = {CLI_CHOICE_LIST, 0, 0, "host|cuda[:N]|slow"};
	struct cli_list list;
	uint64_t value;
	char why[160], word[8];

	(void)state;
	assert_int_equal(cli_value_parse(&rule, "cuda", &value, why, sizeof(why)), 0);
	assert_int_equal(value, 1);
	assert_int_equal(cli_choice_number(value, 77), 77);
	assert_int_equal(cli_value_parse(&rule, "cuda:0", &value, why, sizeof(why)), 0);
	assert_int_equal(cli_choice_index(value), 1);
	assert_int_equal(cli_choice_number(value, 77), 0);
	assert_int_equal(cli_value_parse(&rule, "slow", &value, why, sizeof(why)), 0);
	assert_int_equal(value, 2);
	assert_string_equal(cli_choice_text(rule.choices, 1, word, sizeof(word)), "cuda");
	assert_int_equal(cli_value_parse(&rules, "host,cuda:63", &list, why, sizeof(why)), 0);
	assert_int_equal(list.count, 2);
	assert_int_equal(cli_choice_number(list.values[1], 77), 63);
	refuse(&rule, "slow:1", "choose from host|cuda[:N]|slow");
	refuse(&rule, "cuda:", "not a whole number");
	refuse(&rule, "cuda:x", "not a whole number");
	refuse(&rule, "cuda:64", "out of range 0..63");
	refuse(&rule, "cuda[:N]", "choose from");
	refuse(&rule, ":1", "choose from");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_step_by_two_or_by_the_given_factor),
		cmocka_unit_test(lists_mix_ranges_and_single_sizes),
		cmocka_unit_test(what_is_no_list_is_named),
		cmocka_unit_test(a_long_item_is_cut_in_the_message_not_in_the_value),
		cmocka_unit_test(seconds_are_finite_and_positive),
		cmocka_unit_test(a_choice_may_take_a_number),
		cmocka_unit_test(choices_are_found_by_their_whole_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
