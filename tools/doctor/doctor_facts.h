/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found of a machine, apart from what is thought of it: keys and values, with a plain text
 * form of one "key=value" a line (docs/design/doctor-facts.md). Probes fill it, rules read it.
 */
#ifndef TOOLS_DOCTOR_FACTS_H
#define TOOLS_DOCTOR_FACTS_H

#include <stdint.h>
#include <stdio.h>

#include <tcpx/types.h>

#define DOCTOR_KEY_MAX 96
#define DOCTOR_VALUE_MAX 1024
#define DOCTOR_ROWS_MAX 20000
#define DOCTOR_INDEX_MAX 256	     /* gpu.0 to gpu.255 */
#define DOCTOR_UNLIMITED UINT64_MAX  /* a count written "unlimited" */
#define DOCTOR_FORMAT 1		     /* of the text */
#define DOCTOR_TEXT_MAX (4ull << 20) /* bytes of a facts file */

struct doctor_fact {
	char *key, *value;
};

struct doctor_facts {
	struct doctor_fact *rows; /* by key */
	unsigned count, cap;
	int lost; /* one could not be kept: no memory */
};

enum doctor_type {
	DOCTOR_TEXT,
	DOCTOR_COUNT,  /* whole, "unlimited" allowed */
	DOCTOR_SIGNED, /* whole */
	DOCTOR_FLAG,   /* yes, no */
	DOCTOR_PCI,    /* "0000:04:00.0" */
	DOCTOR_WORD,   /* one of the row's words */
};

/* The keys that there are. In a pattern "#" is a number, a "*" at the end anything. Each may have
 * "peer." before it: the same of the other end. */
struct doctor_key {
	const char *pattern;
	enum doctor_type type;
	const char *words; /* "up|down" */
};
const struct doctor_key *doctor_key(unsigned index); /* NULL past the end */
const struct doctor_key *doctor_key_of(const char *key);

/* 0; -1 with why: unknown key, or a value that is none for it. */
int doctor_fact_check(const char *key, const char *value, char *why, size_t cap);

/* A new value replaces the old one. What is no value for its key is dropped; control characters
 * become "?". */
void doctor_put_text(struct doctor_facts *facts, const char *value, const char *key, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_put_count(struct doctor_facts *facts, uint64_t value, const char *key, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_put_signed(struct doctor_facts *facts, int64_t value, const char *key, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_put_flag(struct doctor_facts *facts, int value, const char *key, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_facts_free(struct doctor_facts *facts);

/* NULL: not known. */
const char *doctor_text(const struct doctor_facts *facts, const char *key, ...)
	__attribute__((format(printf, 2, 3)));
/* 0; -1: not known, *out untouched. */
int doctor_count(const struct doctor_facts *facts, uint64_t *out, const char *key, ...)
	__attribute__((format(printf, 3, 4)));
int doctor_signed(const struct doctor_facts *facts, int64_t *out, const char *key, ...)
	__attribute__((format(printf, 3, 4)));
/* 1 yes, 0 no, -1 not known. */
int doctor_flag(const struct doctor_facts *facts, const char *key, ...)
	__attribute__((format(printf, 2, 3)));

/* Reads the text form into empty facts. 0; -1 with why, "line 7: ...", and the facts freed. */
int doctor_facts_parse(struct doctor_facts *facts, const char *text, size_t len, char *why,
		       size_t cap);
/* Writes it; the state of the stream tells whether it went well. */
void doctor_facts_write(const struct doctor_facts *facts, FILE *out);

#endif
