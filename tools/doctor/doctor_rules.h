/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts over facts. A rule reads facts only, and no file, clock or environment, so that it
 * can be tested with recorded facts. With unknown facts a rule SKIPs and never PASSes. */
#ifndef TOOLS_DOCTOR_RULES_H
#define TOOLS_DOCTOR_RULES_H

#include "doctor_facts.h"

#define DOCTOR_RESULTS_MAX 160

enum doctor_verdict { DOCTOR_PASS, DOCTOR_WARN, DOCTOR_FAIL, DOCTOR_SKIP };
#define DOCTOR_VERDICTS 4

struct doctor_result {
	const char *id; /* "D01" */
	enum doctor_verdict verdict;
	char evidence[640]; /* what was found */
	char cause[400];    /* for WARN and FAIL, as is fix */
	char fix[720];	    /* lines for a shell; those that begin with "#" are comments */
};

struct doctor_report {
	struct doctor_result results[DOCTOR_RESULTS_MAX];
	unsigned count, left_out; /* left_out: results for which there was no room */
	unsigned verdicts[DOCTOR_VERDICTS];
};

/* The state of a rule while it judges. */
struct doctor_judge {
	const struct doctor_facts *facts;
	struct doctor_report *report;
	const char *id;
	unsigned found; /* WARN and FAIL so far */
};

struct doctor_rule {
	const char *id, *name, *title; /* name: one word, for --only and for readers */
	void (*judge)(struct doctor_judge *j);
};

const struct doctor_rule *doctor_rule(unsigned index); /* in order; NULL past the end */
/* By id or name. */
const struct doctor_rule *doctor_rule_named(const char *id, size_t len);
const char *doctor_verdict_name(enum doctor_verdict verdict); /* "PASS" */

/* Judges the facts by the chosen rules, bit by index, and overwrites the report. */
void doctor_judge_all(const struct doctor_facts *facts, uint64_t chosen,
		      struct doctor_report *out_report);

/* For rules: report a problem with its evidence; cause and fix follow for the same result. */
void doctor_warn(struct doctor_judge *j, const char *evidence, ...)
	__attribute__((format(printf, 2, 3)));
void doctor_fail(struct doctor_judge *j, const char *evidence, ...)
	__attribute__((format(printf, 2, 3)));
void doctor_cause(struct doctor_judge *j, const char *cause, ...)
	__attribute__((format(printf, 2, 3)));
void doctor_fix(struct doctor_judge *j, const char *fix, ...) __attribute__((format(printf, 2, 3)));
/* Without effect if the rule has found a problem. */
void doctor_pass(struct doctor_judge *j, const char *evidence, ...)
	__attribute__((format(printf, 2, 3)));
void doctor_skip(struct doctor_judge *j, const char *why, ...)
	__attribute__((format(printf, 2, 3)));

/* Quotes a word for a shell and limits its length, since facts may come from anywhere. Valid
 * until the fourth call after it. */
const char *doctor_quote(const char *word);

/* Appends to a text; ends it with "..." if it does not fit. */
void doctor_add(char *text, size_t cap, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Helpers of several rules. */
int doctor_uses_tcpx(const struct doctor_facts *facts); /* a plugin or RxDM is here */
int doctor_nic_index(const struct doctor_facts *facts, const char *name); /* -1: none */
int doctor_owns_gpu(const struct doctor_facts *facts, const char *nic);
/* The index of the GPU with an ordinal of this process; -1: none. */
int doctor_gpu_index(const struct doctor_facts *facts, uint64_t ordinal);
int doctor_is_listed(const char *list, const char *word); /* whether a comma list has the word */
/* Whether facts about GPUs are known; if not, SKIPs and returns 0. */
int doctor_has_gpus(struct doctor_judge *j);
/* The same for facts of the other end. */
int doctor_has_pair(struct doctor_judge *j);
/* A part of D16: the values of options. Returns 0 if something is not known that is needed. */
int doctor_judge_values(struct doctor_judge *j);
void doctor_fix_bind(struct doctor_judge *j); /* what to do about a wrong TCPX_BIND */

/* The rules, by file. */
void doctor_d01_owner(struct doctor_judge *j);
void doctor_d02_device(struct doctor_judge *j);
void doctor_d03_probe(struct doctor_judge *j);
void doctor_d04_steered(struct doctor_judge *j);
void doctor_d05_queues(struct doctor_judge *j);
void doctor_d06_settle(struct doctor_judge *j);
void doctor_d07_rxdm(struct doctor_judge *j);
void doctor_d08_versions(struct doctor_judge *j);
void doctor_d09_bindings(struct doctor_judge *j);
void doctor_d10_kernel(struct doctor_judge *j);
void doctor_d11_limits(struct doctor_judge *j);
void doctor_d12_routes(struct doctor_judge *j);
void doctor_d13_ports(struct doctor_judge *j);
void doctor_d14_counts(struct doctor_judge *j);
void doctor_d15_links(struct doctor_judge *j);
void doctor_d16_environment(struct doctor_judge *j);
void doctor_d17_key(struct doctor_judge *j);
void doctor_d18_tcp(struct doctor_judge *j);
void doctor_d19_libraries(struct doctor_judge *j);
void doctor_d20_clock(struct doctor_judge *j);
void doctor_d21_rails(struct doctor_judge *j);
void doctor_d22_path(struct doctor_judge *j);

#endif
