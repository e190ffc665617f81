/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of CPUs, and the lists that the kernel writes of them: "0-51,104-155". */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

#include <stddef.h>
#include <stdint.h>

#define CPUS_MAX 8192  /* the largest x86 configuration */
#define CPUS_TEXT 1024 /* room for what lists of real machines take */

struct cpus {
	uint64_t words[CPUS_MAX / 64];
};

/* 0; -1: no list of the kernel's, or a CPU beyond CPUS_MAX, *out_cpus untouched. "" is none. */
int cpus_parse(const char *list, struct cpus *out_cpus);

/* The list, cut at a comma where cap is too small. Returns buf. */
char *cpus_format(const struct cpus *cpus, char *buf, size_t cap);

void cpus_add(struct cpus *cpus, unsigned cpu); /* beyond CPUS_MAX: not added */
int cpus_has(const struct cpus *cpus, unsigned cpu);
unsigned cpus_count(const struct cpus *cpus);

/* out = a and b, out = a or b; out may be one of them. */
void cpus_and(const struct cpus *a, const struct cpus *b, struct cpus *out_cpus);
void cpus_or(const struct cpus *a, const struct cpus *b, struct cpus *out_cpus);

#endif
