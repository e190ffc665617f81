/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of CPUs as bits, and the kernel's list format. */
#include "base/cpus.h"

#include <stdio.h>
#include <string.h>

#define WORDS (CPUS_MAX / 64)

void cpus_add(struct cpus *cpus, unsigned cpu)
{
	if (cpu < CPUS_MAX)
		cpus->words[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

int cpus_has(const struct cpus *cpus, unsigned cpu)
{
	return cpu < CPUS_MAX && cpus->words[cpu / 64] >> cpu % 64 & 1;
}

unsigned cpus_count(const struct cpus *cpus)
{
	unsigned count = 0;

	for (unsigned i = 0; i < WORDS; i++)
		count += (unsigned)__builtin_popcountll(cpus->words[i]);
	return count;
}

void cpus_and(const struct cpus *a, const struct cpus *b, struct cpus *out_cpus)
{
	for (unsigned i = 0; i < WORDS; i++)
		out_cpus->words[i] = a->words[i] & b->words[i];
}

void cpus_or(const struct cpus *a, const struct cpus *b, struct cpus *out_cpus)
{
	for (unsigned i = 0; i < WORDS; i++)
		out_cpus->words[i] = a->words[i] | b->words[i];
}

/* Parses the number at *at and moves *at past it. Returns -1 if there is no digit, or if the number
 * is CPUS_MAX or more. */
static int parse_cpu(const char **at)
{
	const char *c = *at;
	int value = 0;

	if (*c < '0' || *c > '9')
		return -1;
	for (; *c >= '0' && *c <= '9'; c++) {
		value = 10 * value + (*c - '0');
		if (value >= CPUS_MAX)
			return -1;
	}
	*at = c;
	return value;
}

int cpus_parse(const char *list, struct cpus *out_cpus)
{
	struct cpus cpus = {{0}};

	for (const char *at = list; *at;) {
		int first = parse_cpu(&at), last = first;

		if (first >= 0 && *at == '-') {
			at++;
			last = parse_cpu(&at);
		}
		if (first < 0 || last < first || (*at && *at != ',') || (*at && !at[1]))
			return -1;
		for (int cpu = first; cpu <= last; cpu++)
			cpus_add(&cpus, (unsigned)cpu);
		at += *at == ',';
	}
	*out_cpus = cpus;
	return 0;
}

char *cpus_format(const struct cpus *cpus, char *buf, size_t cap)
{
	size_t len = 0;

	if (cap)
		buf[0] = '\0';
	for (unsigned cpu = 0; cpu < CPUS_MAX; cpu++) {
		char range[24];
		unsigned last = cpu;
		int n;

		if (!cpus_has(cpus, cpu))
			continue;
		while (cpus_has(cpus, last + 1))
			last++;
		n = snprintf(range, sizeof(range), last > cpu ? "%s%u-%u" : "%s%u", len ? "," : "",
			     cpu, last);
		if (n < 0 || len + (size_t)n >= cap)
			break;
		memcpy(buf + len, range, (size_t)n + 1);
		len += (size_t)n;
		cpu = last;
	}
	return buf;
}
