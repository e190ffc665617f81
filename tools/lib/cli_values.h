/* SPDX-License-Identifier: Apache-2.0 */
/* Values of command-line options: counts, byte counts, seconds, choices and lists of them. */
#ifndef TOOLS_CLI_VALUES_H
#define TOOLS_CLI_VALUES_H

#include <stddef.h>
#include <stdint.h>

enum cli_type {
	CLI_FLAG,	 /* int, 1 if given */
	CLI_TEXT,	 /* const char * */
	CLI_COUNT,	 /* uint64_t */
	CLI_BYTES,	 /* uint64_t */
	CLI_SECONDS,	 /* double */
	CLI_CHOICE,	 /* uint64_t; read by cli_choice_index(), cli_choice_number() */
	CLI_COUNT_LIST,	 /* struct cli_list */
	CLI_BYTES_LIST,	 /* struct cli_list; ranges A:B (x2) and A:B:xN */
	CLI_CHOICE_LIST, /* struct cli_list */
};

#define CLI_LIST_MAX 64
#define CLI_NUMBER_MAX 63 /* largest number after the colon of a choice */

struct cli_list {
	uint32_t count;
	uint64_t values[CLI_LIST_MAX];
};

/* Rule for a value; min and max bound counts, byte counts and seconds. */
struct cli_rule {
	enum cli_type type;
	uint64_t min, max;
	const char *choices; /* "tcp|local|auto"; one that ends in [:N] takes a number */
};

/* Parses text into *out by the rule. 0, or -1 with a text in why ("'x' is not a count", "1K is out
 * of range 4K..16M"); then *out is unchanged. CLI_TEXT keeps the pointer. */
int cli_value_parse(const struct cli_rule *rule, const char *text, void *out, char *why,
		    size_t why_cap);

/* Parts of the value of a choice: its index in the choices, and the number after its colon, if
 * there was one. A choice without a number is its index. */
static inline uint32_t cli_choice_index(uint64_t value)
{
	return (uint32_t)value;
}

static inline uint32_t cli_choice_number(uint64_t value, uint32_t none)
{
	return value >> 32 ? (uint32_t)(value >> 32) - 1 : none;
}

/* Copies choice number index of "a|b|c[:N]" into buf, without its [:N], and returns buf; "" past
 * the end. */
const char *cli_choice_text(const char *choices, uint64_t index, char *buf, size_t cap);

#endif
