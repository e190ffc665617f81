/* SPDX-License-Identifier: Apache-2.0 */
/* What a run may fill: MemAvailable, and the room in the fullest cgroup of both versions. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "perf_memory.h"
#include "unit.h"

#define GIB (1ull << 30)

static char root[64];

/* Makes the file and the folders that lead to it. */
static void put(const char *path, const char *text)
{
	char full[256];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; *at++ = '/') {
		*at = '\0';
		mkdir(full, 0700);
	}
	f = fopen(full, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void give(const char *path, uint64_t bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)bytes);
	put(path, text);
}

static int make_root(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/tcpx-memory.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	put("proc/meminfo", "MemTotal: 33554432 kB\nMemFree: 1 kB\nMemAvailable: 16777216 kB\n");
	return 0;
}

static int remove_root(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s'", root);
	return system(command);
}

static void nothing_tells(void **state)
{
	struct perf_memory memory;

	(void)state;
	perf_memory_read("/nonexistent", &memory);
	assert_true(memory.available == PERF_MEMORY_UNKNOWN);
	assert_true(memory.room == PERF_MEMORY_UNKNOWN);
	assert_true(memory.group == 0);
	assert_true(perf_memory_usable(memory.room) == PERF_MEMORY_UNKNOWN);
}

static void host_without_limit(void **state)
{
	struct perf_memory memory;

	(void)state;
	put("proc/self/cgroup", "4:memory:/a\n0::/\n");
	put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
	perf_memory_read(root, &memory);
	assert_true(memory.available == 16 * GIB);
	assert_true(memory.room == PERF_MEMORY_UNKNOWN);
	assert_true(perf_memory_usable(memory.available) == 15 * GIB);
}

/* The used part counts, less the cache; the parent has less room than the child. */
static void second_version(void **state)
{
	struct perf_memory memory, other;

	(void)state;
	put("proc/self/cgroup", "0::/job/one\n");
	give("sys/fs/cgroup/job/memory.max", 8 * GIB);
	give("sys/fs/cgroup/job/memory.current", 7 * GIB);
	put("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 1073741824\nfile 9\n");
	give("sys/fs/cgroup/job/one/memory.max", 4 * GIB);
	give("sys/fs/cgroup/job/one/memory.current", GIB);
	put("sys/fs/cgroup/memory.max", "max\n");
	perf_memory_read(root, &memory);
	assert_true(memory.room == 2 * GIB);
	put("proc/self/cgroup", "0::/job/two\n");
	put("sys/fs/cgroup/job/two/memory.max", "max\n");
	perf_memory_read(root, &other);
	assert_true(other.room == 2 * GIB);
	assert_true(memory.group != 0 && memory.group == other.group);
}

static void first_version(void **state)
{
	struct perf_memory memory;

	(void)state;
	put("proc/self/cgroup", "9:cpu:/x\n4:memory:/pod\n0::/\n");
	give("sys/fs/cgroup/memory/pod/memory.limit_in_bytes", 4 * GIB);
	give("sys/fs/cgroup/memory/pod/memory.usage_in_bytes", 3 * GIB);
	put("sys/fs/cgroup/memory/pod/memory.stat", "cache 1\ntotal_inactive_file 1073741824\n");
	perf_memory_read(root, &memory);
	assert_true(memory.room == 2 * GIB);
}

static void nothing_left(void **state)
{
	struct perf_memory memory;

	(void)state;
	put("proc/self/cgroup", "0::/full\n");
	give("sys/fs/cgroup/full/memory.max", GIB);
	give("sys/fs/cgroup/full/memory.current", GIB + 4096);
	perf_memory_read(root, &memory);
	assert_true(memory.room == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_tells),
		cmocka_unit_test_setup_teardown(host_without_limit, make_root, remove_root),
		cmocka_unit_test_setup_teardown(second_version, make_root, remove_root),
		cmocka_unit_test_setup_teardown(first_version, make_root, remove_root),
		cmocka_unit_test_setup_teardown(nothing_left, make_root, remove_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
