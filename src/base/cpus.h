/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of CPUs, and the lists in the kernel's format: "0-51,104-155". */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

#include <stddef.h>
#include <stdint.h>

#define CPUS_MAX 8192  /* the largest x86 configuration */
#define CPUS_TEXT 1024 /* enough for the lists of real machines */

struct cpus {
	uint64_t words[CPUS_MAX / 64];
};

/* Parses a list. Returns 0, or -1 if it is malformed or names a CPU of CPUS_MAX or more; then
 * *out_cpus is unchanged. "" is the empty set. */
int cpus_parse(const char *list, struct cpus *out_cpus);

/* Writes the list, truncated at a comma if cap is too small. Returns buf. */
char *cpus_format(const struct cpus *cpus, char *buf, size_t cap);

void cpus_add(struct cpus *cpus, unsigned cpu); /* ignored if cpu >= CPUS_MAX */
int cpus_has(const struct cpus *cpus, unsigned cpu);
unsigned cpus_count(const struct cpus *cpus);

/* Sets *out_cpus to the CPUs that are in both a and b (and), or in at least one of them (or).
 * out_cpus may be a or b. */
void cpus_and(const struct cpus *a, const struct cpus *b, struct cpus *out_cpus);
void cpus_or(const struct cpus *a, const struct cpus *b, struct cpus *out_cpus);

#endif
