/* SPDX-License-Identifier: Apache-2.0 */
/* Values of command-line options: counts, byte counts, seconds, choices and lists of them. */
#ifndef TOOLS_CLI_VALUES_H
#define TOOLS_CLI_VALUES_H

#include <stddef.h>
#include <stdint.h>

enum cli_type {
	CLI_FLAG,	 /* int, 1 when given */
	CLI_TEXT,	 /* const char * */
	CLI_COUNT,	 /* uint64_t */
	CLI_BYTES,	 /* uint64_t */
	CLI_SECONDS,	 /* double */
	CLI_CHOICE,	 /* uint64_t, index in the choices */
	CLI_COUNT_LIST,	 /* struct cli_list */
	CLI_BYTES_LIST,	 /* struct cli_list; ranges A:B (x2) and A:B:xN */
	CLI_CHOICE_LIST, /* struct cli_list */
};

#define CLI_LIST_MAX 64

struct cli_list {
	uint32_t count;
	uint64_t values[CLI_LIST_MAX];
};

/* What a value must be; min and max bound counts, byte counts and seconds. */
struct cli_rule {
	enum cli_type type;
	uint64_t min, max;
	const char *choices; /* "tcp|local|auto" */
};

/* Parses text into *out by the rule. 0; -1 with a text in why ("'x' is not a count", "1K is out of
 * range 4K..16M"), *out untouched. CLI_TEXT keeps the pointer. */
int cli_value_parse(const struct cli_rule *rule, const char *text, void *out, char *why,
		    size_t why_cap);

/* Copies choice number index of "a|b|c" into buf and returns buf; "" past the end. */
const char *cli_choice_text(const char *choices, uint64_t index, char *buf, size_t cap);

#endif
