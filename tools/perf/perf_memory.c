/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a run may fill. */
#include "perf_memory.h"

#include <stdio.h>
#include <string.h>

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t available(void)
{
	unsigned long long kib = UINT64_MAX / 1024;
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib * 1024;
}

/* The number in a file; UINT64_MAX when there is none ("max"). */
static uint64_t read_limit(const char *folder, const char *cgroup, const char *name)
{
	unsigned long long bytes = UINT64_MAX;
	char path[700];
	FILE *f;

	snprintf(path, sizeof(path), "%s%s/%s", folder, cgroup, name);
	f = fopen(path, "re");
	if (!f)
		return UINT64_MAX;
	if (fscanf(f, "%llu", &bytes) != 1)
		bytes = UINT64_MAX;
	fclose(f);
	return bytes;
}

/* The least limit from a cgroup up to the root: v1 where there is a memory controller, else v2. */
static uint64_t cgroup_limit(char *cgroup, int v1)
{
	const char *folder = v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
	const char *name = v1 ? "memory.limit_in_bytes" : "memory.max";
	uint64_t limit = UINT64_MAX;

	for (char *end = cgroup + strlen(cgroup); end; end = strrchr(cgroup, '/')) {
		*end = 0;
		limit = least(limit, read_limit(folder, cgroup, name));
	}
	return limit;
}

uint64_t perf_memory_free(void)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	uint64_t bytes = available();
	char line[512];

	while (f && fgets(line, sizeof(line), f)) { /* "4:memory:/a/b", "0::/a/b" */
		char *controllers = strchr(line, ':');
		char *cgroup = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!cgroup)
			continue;
		*cgroup++ = 0;
		cgroup[strcspn(cgroup, "\n")] = 0;
		if (!strcmp(controllers, ":memory") || !controllers[1])
			bytes = least(bytes, cgroup_limit(cgroup, controllers[1] != 0));
	}
	if (f)
		fclose(f);
	return bytes;
}
