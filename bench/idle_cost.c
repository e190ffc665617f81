/* SPDX-License-Identifier: Apache-2.0 */
/* What a connected session costs that does nothing: memory, descriptors, wake-ups, CPU. */
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "bench_pair.h"
#include "bench_util.h"

struct cost {
	double rss_bytes, descriptors, switches, cpu;
};

static double status_field(const char *path, const char *field)
{
	FILE *f = fopen(path, "re");
	char line[256];
	double value = 0;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, field, strlen(field)))
			value = strtod(line + strlen(field), NULL);
	if (f)
		fclose(f);
	return value;
}

/* User and system ticks are the 14th and 15th word; the name in brackets has no blank here. */
static double cpu_of(pid_t pid)
{
	char path[64];
	unsigned long user = 0, sys = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			&sys) != 2)
		user = sys = 0;
	if (f)
		fclose(f);
	return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

static struct cost cost_of(pid_t pid)
{
	struct cost c = {.cpu = cpu_of(pid)};
	char path[300];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	c.rss_bytes = status_field(path, "RssAnon:") * 1024;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	for (d = opendir(path); d && readdir(d);)
		c.descriptors++;
	if (d)
		closedir(d);
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	for (d = opendir(path); d && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, e->d_name);
		c.switches += status_field(path, "voluntary_ctxt_switches:");
	}
	if (d)
		closedir(d);
	return c;
}

static void print_cost(const char *name, struct cost begin, struct cost end, double seconds)
{
	printf("\"%s\": {\"rss_bytes\": %.0f, \"descriptors\": %.0f, \"wakeups_per_second\": %.3f, "
	       "\"cores\": %.6f}",
	       name, end.rss_bytes, end.descriptors, (end.switches - begin.switches) / seconds,
	       (end.cpu - begin.cpu) / seconds);
}

/* Arguments: channels, seconds, bytes written before the pause. */
int main(int argc, char **argv)
{
	unsigned channels = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	unsigned seconds = argc > 2 ? (unsigned)atoi(argv[2]) : 5;
	uint64_t bytes = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	struct cost here, there;
	struct bench_pair pair;

	bench_pair_open(&pair, 64 << 20, channels);
	if (bytes)
		bench_write(&pair, bytes);
	sleep(1);
	here = cost_of(getpid());
	there = cost_of(pair.child);
	sleep(seconds);
	printf("{\"channels\": %u, \"seconds\": %u, ", channels, seconds);
	print_cost("client", here, cost_of(getpid()), seconds);
	printf(", ");
	print_cost("server", there, cost_of(pair.child), seconds);
	printf("}\n");
	bench_pair_close(&pair);
	return 0;
}
