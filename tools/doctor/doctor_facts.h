/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a machine, without judgement: keys and values, with a text form of one "key=value"
 * per line (docs/design/doctor-facts.md). Probes write facts, rules read them. */
#ifndef TOOLS_DOCTOR_FACTS_H
#define TOOLS_DOCTOR_FACTS_H

#include <stdint.h>
#include <stdio.h>

#include <tcpx/types.h>

#define DOCTOR_KEY_MAX 96
#define DOCTOR_VALUE_MAX 1024
#define DOCTOR_ROWS_MAX 20000
#define DOCTOR_INDEX_MAX 256	     /* gpu.0 to gpu.255 */
#define DOCTOR_UNLIMITED UINT64_MAX  /* value of a count that reads "unlimited" */
#define DOCTOR_FORMAT 1		     /* of the text */
#define DOCTOR_TEXT_MAX (4ull << 20) /* most bytes of a facts file */

struct doctor_fact {
	char *key, *value;
};

struct doctor_facts {
	struct doctor_fact *rows; /* by key */
	unsigned count, cap;
	int lost; /* a fact was dropped: no memory */
};

enum doctor_type {
	DOCTOR_TEXT,
	DOCTOR_COUNT,  /* whole number or "unlimited" */
	DOCTOR_SIGNED, /* whole */
	DOCTOR_FLAG,   /* yes, no */
	DOCTOR_PCI,    /* "0000:04:00.0" */
	DOCTOR_WORD,   /* one of the words of the row */
};

/* The known keys. In a pattern "#" is a number, and "*" at the end matches anything. The prefix
 * "peer." means the same fact at the other end. */
struct doctor_key {
	const char *pattern;
	enum doctor_type type;
	const char *words; /* "up|down" */
};
const struct doctor_key *doctor_key(unsigned index); /* NULL past the end */
const struct doctor_key *doctor_key_of(const char *key);

/* Checks key and value. Returns 0, or -1 with why. */
int doctor_fact_check(const char *key, const char *value, char *why, size_t cap);

/* A new value replaces the old one. Values that do not suit the key are dropped; control
 * characters become "?". */
void doctor_put_text(struct doctor_facts *facts, const char *value, const char *key, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_put_count(struct doctor_facts *facts, uint64_t value, const char *key, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_put_signed(struct doctor_facts *facts, int64_t value, const char *key, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_put_flag(struct doctor_facts *facts, int value, const char *key, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_facts_free(struct doctor_facts *facts);

/* NULL: unknown. */
const char *doctor_text(const struct doctor_facts *facts, const char *key, ...)
	__attribute__((format(printf, 2, 3)));
/* Returns 0, or -1 if unknown; then *out is unchanged. */
int doctor_count(const struct doctor_facts *facts, uint64_t *out, const char *key, ...)
	__attribute__((format(printf, 3, 4)));
int doctor_signed(const struct doctor_facts *facts, int64_t *out, const char *key, ...)
	__attribute__((format(printf, 3, 4)));
/* 1: yes, 0: no, -1: unknown. */
int doctor_flag(const struct doctor_facts *facts, const char *key, ...)
	__attribute__((format(printf, 2, 3)));

/* Parses the text form into empty facts. Returns 0, or -1 with why ("line 7: ...") and the facts
 * freed. */
int doctor_facts_parse(struct doctor_facts *facts, const char *text, size_t len, char *why,
		       size_t cap);
/* Writes the text form; errors show in the state of the stream. */
void doctor_facts_write(const struct doctor_facts *facts, FILE *out);

#endif
