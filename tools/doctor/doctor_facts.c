/* SPDX-License-Identifier: Apache-2.0 */
/* Facts as keys and values, and their text form. */
#include "doctor_facts.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/pci.h"
#include "base/text.h"

#define FIRST "format"
#define LAST "end"

/* The index of the key, or where it would be inserted. */
static unsigned place_of(const struct doctor_facts *facts, const char *key, int *out_found)
{
	unsigned low = 0, high = facts->count;

	while (low < high) {
		unsigned mid = (low + high) / 2;
		int order = strcmp(facts->rows[mid].key, key);

		if (!order) {
			*out_found = 1;
			return mid;
		}
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*out_found = 0;
	return low;
}

static int grow(struct doctor_facts *facts)
{
	unsigned cap = facts->cap ? 2 * facts->cap : 256;
	struct doctor_fact *rows;

	if (facts->count < facts->cap)
		return 0;
	rows = facts->count < DOCTOR_ROWS_MAX ? realloc(facts->rows, cap * sizeof(*rows)) : NULL;
	if (!rows)
		return -1;
	facts->rows = rows;
	facts->cap = cap;
	return 0;
}

/* Returns 0; 1: replaced a value; -1: no room. */
static int keep(struct doctor_facts *facts, const char *key, const char *value)
{
	int found;
	unsigned at = place_of(facts, key, &found);
	struct doctor_fact row = {NULL, strdup(value)};

	if (!row.value)
		return -1;
	if (found) {
		free(facts->rows[at].value);
		facts->rows[at].value = row.value;
		return 1;
	}
	row.key = strdup(key);
	if (!row.key || grow(facts)) {
		free(row.key);
		free(row.value);
		return -1;
	}
	memmove(&facts->rows[at + 1], &facts->rows[at],
		(facts->count - at) * sizeof(facts->rows[0]));
	facts->rows[at] = row;
	facts->count++;
	return 0;
}

static void doctor_facts_put(struct doctor_facts *facts, const char *value, const char *key,
			     va_list ap)
{
	char name[DOCTOR_KEY_MAX], text[DOCTOR_VALUE_MAX], why[200];
	int len = vsnprintf(name, sizeof(name), key, ap);

	snprintf(text, sizeof(text), "%s", value);
	for (char *p = text; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = '?';
	for (const char *p = name; *p; p++)
		if (iscntrl((unsigned char)*p) || *p == '=')
			return;
	if (len < 0 || (size_t)len >= sizeof(name) ||
	    doctor_fact_check(name, text, why, sizeof(why)))
		return;
	if (keep(facts, name, text) < 0)
		facts->lost = 1;
}

void doctor_put_text(struct doctor_facts *facts, const char *value, const char *key, ...)
{
	va_list ap;

	va_start(ap, key);
	doctor_facts_put(facts, value, key, ap);
	va_end(ap);
}

void doctor_put_count(struct doctor_facts *facts, uint64_t value, const char *key, ...)
{
	char text[24];
	va_list ap;

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	va_start(ap, key);
	doctor_facts_put(facts, value == DOCTOR_UNLIMITED ? "unlimited" : text, key, ap);
	va_end(ap);
}

void doctor_put_signed(struct doctor_facts *facts, int64_t value, const char *key, ...)
{
	char text[24];
	va_list ap;

	snprintf(text, sizeof(text), "%lld", (long long)value);
	va_start(ap, key);
	doctor_facts_put(facts, text, key, ap);
	va_end(ap);
}

void doctor_put_flag(struct doctor_facts *facts, int value, const char *key, ...)
{
	va_list ap;

	va_start(ap, key);
	doctor_facts_put(facts, value ? "yes" : "no", key, ap);
	va_end(ap);
}

void doctor_facts_free(struct doctor_facts *facts)
{
	for (unsigned i = 0; i < facts->count; i++) {
		free(facts->rows[i].key);
		free(facts->rows[i].value);
	}
	free(facts->rows);
	*facts = (struct doctor_facts){0};
}

static const char *doctor_facts_find(const struct doctor_facts *facts, const char *key, va_list ap)
{
	char name[DOCTOR_KEY_MAX];
	int found, len = vsnprintf(name, sizeof(name), key, ap);
	unsigned at;

	if (len < 0 || (size_t)len >= sizeof(name))
		return NULL;
	at = place_of(facts, name, &found);
	return found ? facts->rows[at].value : NULL;
}

const char *doctor_text(const struct doctor_facts *facts, const char *key, ...)
{
	const char *value;
	va_list ap;

	va_start(ap, key);
	value = doctor_facts_find(facts, key, ap);
	va_end(ap);
	return value;
}

static int to_count(const char *text, uint64_t *out)
{
	char *end;
	unsigned long long value;

	if (!strcmp(text, "unlimited")) {
		*out = DOCTOR_UNLIMITED;
		return 0;
	}
	errno = 0;
	value = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno)
		return -1;
	*out = value;
	return 0;
}

static int to_signed(const char *text, int64_t *out)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (!isdigit((unsigned char)text[*text == '-']) || *end || errno)
		return -1;
	*out = value;
	return 0;
}

int doctor_count(const struct doctor_facts *facts, uint64_t *out, const char *key, ...)
{
	const char *value;
	va_list ap;

	va_start(ap, key);
	value = doctor_facts_find(facts, key, ap);
	va_end(ap);
	return value ? to_count(value, out) : -1;
}

int doctor_signed(const struct doctor_facts *facts, int64_t *out, const char *key, ...)
{
	const char *value;
	va_list ap;

	va_start(ap, key);
	value = doctor_facts_find(facts, key, ap);
	va_end(ap);
	return value ? to_signed(value, out) : -1;
}

int doctor_flag(const struct doctor_facts *facts, const char *key, ...)
{
	const char *value;
	va_list ap;

	va_start(ap, key);
	value = doctor_facts_find(facts, key, ap);
	va_end(ap);
	return value ? !strcmp(value, "yes") : -1;
}

static int doctor_facts_is_word(const char *words, const char *value)
{
	size_t len;

	for (; *words; words += len + (words[len] == '|')) {
		len = strcspn(words, "|");
		if (strlen(value) == len && !memcmp(words, value, len))
			return 1;
	}
	return 0;
}

int doctor_fact_check(const char *key, const char *value, char *why, size_t cap)
{
	const struct doctor_key *row = doctor_key_of(key);
	const char *must = NULL;
	uint64_t count;
	int64_t number;
	pci_addr pci;

	if (!row) {
		text_format(why, cap, "unknown key '%.60s'", key);
		return -1;
	}
	switch (row->type) {
	case DOCTOR_TEXT:
		break;
	case DOCTOR_COUNT:
		must = to_count(value, &count) ? "a whole number, or unlimited" : NULL;
		break;
	case DOCTOR_SIGNED:
		must = to_signed(value, &number) ? "a whole number" : NULL;
		break;
	case DOCTOR_FLAG:
		must = doctor_facts_is_word("yes|no", value) ? NULL : "yes or no";
		break;
	case DOCTOR_PCI:
		must = pci_parse(value, &pci) ? "a PCI address like 0000:04:00.0" : NULL;
		break;
	case DOCTOR_WORD:
		must = doctor_facts_is_word(row->words, value) ? NULL : row->words;
		break;
	}
	if (must)
		text_format(why, cap, "%.60s is '%.40s', and must be %s", key, value, must);
	return must ? -1 : 0;
}

/* Parses one line. Returns 0; 1: it was the last one; -1 with why. */
static int parse_line(struct doctor_facts *facts, char *line, unsigned number, char *why,
		      size_t cap)
{
	char *value = strchr(line, '=');
	char wrong[200];
	int kept;

	if (!value || value == line || value - line >= DOCTOR_KEY_MAX ||
	    strlen(value) > DOCTOR_VALUE_MAX) {
		text_format(why, cap, "line %u is no key=value: '%.40s'", number, line);
		return -1;
	}
	for (const char *p = line; *p; p++)
		if (iscntrl((unsigned char)*p)) {
			text_format(why, cap, "line %u has a control character", number);
			return -1;
		}
	*value++ = '\0';
	if (number == 1 && (strcmp(line, FIRST) || strcmp(value, "1"))) {
		text_format(why, cap, "line 1 is not " FIRST "=%d: no facts, or of another version",
			    DOCTOR_FORMAT);
		return -1;
	}
	if (!strcmp(line, LAST))
		return 1;
	if (number == 1)
		return 0;
	if (doctor_fact_check(line, value, wrong, sizeof(wrong))) {
		text_format(why, cap, "line %u: %s", number, wrong);
		return -1;
	}
	kept = keep(facts, line, value);
	if (kept)
		text_format(why, cap,
			    kept < 0 ? "line %u: too many facts" : "line %u: %.60s is there twice",
			    number, line);
	return kept ? -1 : 0;
}

static int parse_lines(struct doctor_facts *facts, char *text, char *why, size_t cap)
{
	unsigned number = 0;
	char *line, *rest = text;
	int rc = 0;

	while (!rc && (line = strsep(&rest, "\n")) != NULL) {
		if (*line == '#' || (!*line && (!rest || number)))
			continue;
		rc = parse_line(facts, line, ++number, why, cap);
	}
	if (rc > 0 && rest && *rest) {
		text_format(why, cap, "something follows " LAST "=");
		return -1;
	}
	if (!rc)
		text_format(why, cap, "truncated: the last line is not " LAST "=1");
	return rc > 0 ? 0 : -1;
}

int doctor_facts_parse(struct doctor_facts *facts, const char *text, size_t len, char *why,
		       size_t cap)
{
	char *copy;
	int rc;

	if (memchr(text, '\0', len) || len > DOCTOR_TEXT_MAX) {
		text_format(why, cap,
			    len > DOCTOR_TEXT_MAX ? "more than 4 MiB" : "no text: it has a NUL");
		return -1;
	}
	copy = strndup(text, len);
	if (!copy) {
		text_format(why, cap, "out of memory");
		return -1;
	}
	rc = parse_lines(facts, copy, why, cap);
	free(copy);
	if (rc)
		doctor_facts_free(facts);
	return rc;
}

void doctor_facts_write(const struct doctor_facts *facts, FILE *out)
{
	fprintf(out, FIRST "=%d\n", DOCTOR_FORMAT);
	for (unsigned i = 0; i < facts->count; i++)
		fprintf(out, "%s=%s\n", facts->rows[i].key, facts->rows[i].value);
	fprintf(out, LAST "=1\n");
}
