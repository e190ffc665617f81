/* SPDX-License-Identifier: Apache-2.0 */
/* Values of command-line options. */
#include "cli_values.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/text.h"

#define ITEM_MAX 64

static int out_of_range(const struct cli_rule *rule, const char *text, char *why, size_t cap)
{
	char lo[BYTES_TEXT_MAX], hi[BYTES_TEXT_MAX];

	if (rule->type == CLI_BYTES || rule->type == CLI_BYTES_LIST)
		text_format(why, cap, "%s is out of range %s..%s", text,
			    bytes_compact(rule->min, lo, sizeof(lo)),
			    bytes_compact(rule->max, hi, sizeof(hi)));
	else
		text_format(why, cap, "%s is out of range %llu..%llu", text,
			    (unsigned long long)rule->min, (unsigned long long)rule->max);
	return -1;
}

static int parse_count(const struct cli_rule *rule, const char *text, uint64_t *out, char *why,
		       size_t cap)
{
	uint64_t value = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return out_of_range(rule, text, why, cap);
	if (*p || p == text) {
		uint64_t size;

		if (bytes_parse(text, &size))
			text_format(why, cap, "'%s' is not a whole number", text);
		else
			text_format(why, cap, "'%s' is a size, and a plain number is needed", text);
		return -1;
	}
	if (value < rule->min || value > rule->max)
		return out_of_range(rule, text, why, cap);
	*out = value;
	return 0;
}

static int parse_bytes(const struct cli_rule *rule, const char *text, uint64_t *out, char *why,
		       size_t cap)
{
	uint64_t value;

	if (bytes_parse(text, &value)) {
		text_format(why, cap, "'%s' is not a size (64M, 64MB, 64MiB or bytes)", text);
		return -1;
	}
	if (value < rule->min || value > rule->max)
		return out_of_range(rule, text, why, cap);
	*out = value;
	return 0;
}

static int parse_seconds(const struct cli_rule *rule, const char *text, double *out, char *why,
			 size_t cap)
{
	char *end;
	double value;

	errno = 0;
	value = strtod(text, &end);
	if (end == text || (*end && strcmp(end, "s")) || errno || !isfinite(value)) {
		text_format(why, cap, "'%s' is not a number of seconds", text);
		return -1;
	}
	if (value <= 0 || value < (double)rule->min || value > (double)rule->max) {
		text_format(why, cap, "%s is out of range: more than 0, up to %llu seconds", text,
			    (unsigned long long)rule->max);
		return -1;
	}
	*out = value;
	return 0;
}

const char *cli_choice_text(const char *choices, uint64_t index, char *buf, size_t cap)
{
	size_t len;

	while (index--) {
		choices = strchr(choices, '|');
		if (!choices)
			return "";
		choices++;
	}
	len = strcspn(choices, "|[");
	snprintf(buf, cap, "%.*s", (int)len, choices);
	return buf;
}

/* Whether choice number index ends in "[:N]". */
static int takes_number(const char *choices, uint64_t index)
{
	while (index--)
		choices = strchr(choices, '|') + 1;
	return choices[strcspn(choices, "|[")] == '[';
}

static int parse_choice(const struct cli_rule *rule, const char *text, uint64_t *out, char *why,
			size_t cap)
{
	static const struct cli_rule number_rule = {CLI_COUNT, 0, CLI_NUMBER_MAX, NULL};
	const char *colon = strchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	uint64_t i, number = 0;
	char word[ITEM_MAX];

	for (i = 0; *cli_choice_text(rule->choices, i, word, sizeof(word)); i++) {
		if (strlen(word) != len || strncmp(word, text, len) ||
		    (colon && !takes_number(rule->choices, i)))
			continue;
		if (colon && parse_count(&number_rule, colon + 1, &number, why, cap))
			return -1;
		*out = i | (colon ? number + 1 : 0) << 32;
		return 0;
	}
	text_format(why, cap, "invalid value '%s'; choose from %s", text, rule->choices);
	return -1;
}

static int list_add(struct cli_list *list, uint64_t value, char *why, size_t cap)
{
	if (list->count == CLI_LIST_MAX) {
		text_format(why, cap, "more than %d values", CLI_LIST_MAX);
		return -1;
	}
	list->values[list->count++] = value;
	return 0;
}

/* "A:B" or "A:B:xN": A, A*N, A*N*N ... up to B. */
static int add_range(const struct cli_rule *rule, char *item, struct cli_list *list, char *why,
		     size_t cap)
{
	struct cli_rule factor_rule = {.type = CLI_COUNT, .min = 2, .max = 1024};
	uint64_t first, last, factor = 2, value;
	char *second = strchr(item, ':'), *third;

	*second++ = 0;
	third = strchr(second, ':');
	if (third) {
		*third++ = 0;
		if (*third != 'x') {
			text_format(why, cap, "'%s' is not a step (x2, x4 ...)", third);
			return -1;
		}
		if (parse_count(&factor_rule, third + 1, &factor, why, cap))
			return -1;
	}
	if (parse_bytes(rule, item, &first, why, cap) || parse_bytes(rule, second, &last, why, cap))
		return -1;
	if (first > last || !first) {
		text_format(why, cap, "range %s:%s is not ascending", item, second);
		return -1;
	}
	for (value = first; value <= last; value *= factor) {
		if (list_add(list, value, why, cap))
			return -1;
		if (value > UINT64_MAX / factor)
			break;
	}
	return 0;
}

static int add_item(const struct cli_rule *rule, char *item, struct cli_list *list, char *why,
		    size_t cap)
{
	uint64_t value = 0;
	int rc;

	if (rule->type == CLI_BYTES_LIST && strchr(item, ':'))
		return add_range(rule, item, list, why, cap);
	if (rule->type == CLI_BYTES_LIST)
		rc = parse_bytes(rule, item, &value, why, cap);
	else if (rule->type == CLI_COUNT_LIST)
		rc = parse_count(rule, item, &value, why, cap);
	else
		rc = parse_choice(rule, item, &value, why, cap);
	return rc ? rc : list_add(list, value, why, cap);
}

static int parse_list(const struct cli_rule *rule, const char *text, struct cli_list *out,
		      char *why, size_t cap)
{
	struct cli_list list = {0};
	char item[ITEM_MAX];

	for (;;) {
		size_t len = strcspn(text, ",");

		if (len >= sizeof(item)) {
			text_format(why, cap, "'%.20s...' is too long", text);
			return -1;
		}
		memcpy(item, text, len);
		item[len] = 0;
		if (add_item(rule, item, &list, why, cap))
			return -1;
		if (!text[len])
			break;
		text += len + 1;
	}
	*out = list;
	return 0;
}

int cli_value_parse(const struct cli_rule *rule, const char *text, void *out, char *why,
		    size_t why_cap)
{
	switch (rule->type) {
	case CLI_FLAG:
		*(int *)out = 1;
		return 0;
	case CLI_TEXT:
		if (!*text) {
			text_format(why, why_cap, "the value is empty");
			return -1;
		}
		*(const char **)out = text;
		return 0;
	case CLI_COUNT:
		return parse_count(rule, text, out, why, why_cap);
	case CLI_BYTES:
		return parse_bytes(rule, text, out, why, why_cap);
	case CLI_SECONDS:
		return parse_seconds(rule, text, out, why, why_cap);
	case CLI_CHOICE:
		return parse_choice(rule, text, out, why, why_cap);
	case CLI_COUNT_LIST:
	case CLI_BYTES_LIST:
	case CLI_CHOICE_LIST:
		return parse_list(rule, text, out, why, why_cap);
	}
	return -1;
}
