/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a run may fill. */
#include "perf_memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 1024
#define NO_LIMIT (UINT64_MAX >> 2) /* cgroup v1 writes "none" as a number near 2^63 */
#define KEPT_PART 16		   /* this fraction stays free */

static uint64_t perf_memory_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Reads the number on the line that begins with the word, or on the first line if the word is
 * "". Returns 0 or -1. */
static int read_number(const char *path, const char *word, uint64_t *out)
{
	FILE *f = fopen(path, "re");
	size_t len = strlen(word);
	unsigned long long value;
	char line[256];
	int rc = -1;

	while (f && rc && fgets(line, sizeof(line), f)) {
		if (strncmp(line, word, len) != 0)
			continue;
		if (sscanf(line + len, " %llu", &value) != 1)
			break;
		*out = value;
		rc = 0;
	}
	if (f)
		fclose(f);
	return rc;
}

static uint64_t available(const char *root)
{
	char path[PATH_BYTES];
	uint64_t kib;

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	return read_number(path, "MemAvailable:", &kib) ? PERF_MEMORY_UNKNOWN : kib * 1024;
}

/* Files of the memory controller, versions 1 and 2. */
struct controller {
	const char *mount, *limit, *used, *cache;
};

static const struct controller v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
				     "memory.usage_in_bytes", "total_inactive_file "};
static const struct controller v2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
				     "inactive_file "};

/* Room in one cgroup; inactive file pages do not count as used. */
static uint64_t room_of(const char *folder, const struct controller *c)
{
	uint64_t limit, used = 0, cache = 0;
	char path[PATH_BYTES + 32];

	snprintf(path, sizeof(path), "%s/%s", folder, c->limit);
	if (read_number(path, "", &limit) || limit >= NO_LIMIT)
		return PERF_MEMORY_UNKNOWN;
	snprintf(path, sizeof(path), "%s/%s", folder, c->used);
	(void)read_number(path, "", &used);
	snprintf(path, sizeof(path), "%s/memory.stat", folder);
	(void)read_number(path, c->cache, &cache);
	used -= perf_memory_least(cache, used);
	return limit - perf_memory_least(used, limit);
}

/* The cgroup with the least room, from that of the process up to the root. */
static void look_up(const char *root, char *cgroup, const struct controller *c,
		    struct perf_memory *out)
{
	char folder[PATH_BYTES];
	struct stat st;

	for (char *end = cgroup + strlen(cgroup); end; end = strrchr(cgroup, '/')) {
		uint64_t room;

		*end = 0;
		snprintf(folder, sizeof(folder), "%s%s%s", root, c->mount, cgroup);
		room = room_of(folder, c);
		/* with equal room the upper one, which more processes share */
		if (room == PERF_MEMORY_UNKNOWN || room > out->room)
			continue;
		out->room = room;
		out->group = stat(folder, &st) ? 0 : (uint64_t)st.st_ino;
	}
}

void perf_memory_read(const char *root, struct perf_memory *out)
{
	char path[PATH_BYTES], line[512];
	FILE *f;

	*out = (struct perf_memory){available(root), PERF_MEMORY_UNKNOWN, 0};
	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) { /* "4:memory:/a/b", "0::/a/b" */
		char *controllers = strchr(line, ':');
		char *cgroup = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!cgroup)
			continue;
		*cgroup++ = 0;
		cgroup[strcspn(cgroup, "\n")] = 0;
		if (!strcmp(controllers, ":memory"))
			look_up(root, cgroup, &v1, out);
		else if (!controllers[1])
			look_up(root, cgroup, &v2, out);
	}
	if (f)
		fclose(f);
}

uint64_t perf_memory_usable(uint64_t free_bytes)
{
	return free_bytes == PERF_MEMORY_UNKNOWN ? free_bytes : free_bytes - free_bytes / KEPT_PART;
}

uint64_t perf_memory_free(void)
{
	struct perf_memory memory;

	perf_memory_read("", &memory);
	return perf_memory_usable(perf_memory_least(memory.available, memory.room));
}
