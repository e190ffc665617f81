/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of CPUs, and the lists in the kernel's format: "0-51,104-155". */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

#include <stddef.h>
#include <stdint.h>

#define CPUS_MAX 8192  /* most CPUs that Linux supports on x86 */
#define CPUS_TEXT 1024 /* bytes; enough for the list of a real machine */

struct cpus {
	uint64_t words[CPUS_MAX / 64];
};

/* Parses a list; "" is the empty set. Returns 0. Returns -1 if the list is malformed or has a
 * number of CPUS_MAX or more; *out_cpus is then unchanged. */
int cpus_parse(const char *list, struct cpus *out_cpus);

/* Writes the list. If it does not fit into `cap` bytes, leaves out whole entries at its end.
 * Returns buf. */
char *cpus_format(const struct cpus *cpus, char *buf, size_t cap);

void cpus_add(struct cpus *cpus, unsigned cpu); /* ignored if cpu >= CPUS_MAX */
int cpus_has(const struct cpus *cpus, unsigned cpu);
unsigned cpus_count(const struct cpus *cpus);

/* cpus_and sets *out_cpus to the CPUs that are in both a and b, cpus_or to those that are in at
 * least one of them. out_cpus may be a or b. */
void cpus_and(const struct cpus *a, const struct cpus *b, struct cpus *out_cpus);
void cpus_or(const struct cpus *a, const struct cpus *b, struct cpus *out_cpus);

#endif
