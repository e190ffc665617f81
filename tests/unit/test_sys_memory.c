/* SPDX-License-Identifier: Apache-2.0 */
/* What mappings allow, by both ways of asking; copies of memory that is gone, by both ways of
 * copying. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "sys/maps.h"
#include "sys/user.h"

#define PAGES 8
#define FD_AT 4 /* pages from there on are the file's */

static size_t page;
static uint8_t *map;
static int file;

/* rw-, r--, ---, nothing; then a file, of which the last two pages are beyond its end; -w- */
static int make(void **state)
{
	(void)state;
	page = (size_t)sysconf(_SC_PAGESIZE);
	map = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	file = memfd_create("unit", MFD_CLOEXEC);
	return map == MAP_FAILED || file < 0 || mprotect(map + page, page, PROT_READ) ||
	       mprotect(map + 2 * page, page, PROT_NONE) || munmap(map + 3 * page, page) ||
	       ftruncate(file, (off_t)(2 * page)) ||
	       mmap(map + FD_AT * page, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		    file, 0) == MAP_FAILED;
}

static int unmake(void **state)
{
	(void)state;
	munmap(map, 3 * page);
	munmap(map + FD_AT * page, 4 * page);
	return close(file);
}

typedef int (*look_fn)(const void *addr, uint64_t length, struct sys_maps *out);

static const look_fn looks[] = {sys_maps_look, sys_maps_read};

static void each_page_counts(void **state)
{
	static const struct {
		unsigned from, bytes_more; /* of pages: from there on, one and so many more */
		int read, write, file;
		int no_read, no_write; /* pages; -1: none */
		const char *read_perms, *write_perms;
	} rows[] = {
		{0, 0, 1, 1, 0, -1, -1, "", ""},       {0, 1, 1, 0, 0, -1, 1, "", "r--p"},
		{1, 0, 1, 0, 0, -1, 1, "", "r--p"},    {0, 2, 0, 0, 0, 2, 1, "---p", "r--p"},
		{2, 0, 0, 0, 0, 2, 2, "---p", "---p"}, {3, 0, 0, 0, 0, 3, 3, "", ""},
		{2, 1, 0, 0, 0, 2, 2, "---p", "---p"}, {4, 3, 1, 1, 1, -1, -1, "", ""},
		{3, 1, 0, 0, 1, 3, 3, "", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (size_t by = 0; by < 2; by++) {
			struct sys_maps got = {0};
			uint64_t length = rows[i].bytes_more * page + 1;
			uint8_t *at = map + rows[i].from * page;

			assert_int_equal(looks[by](at, length, &got), 0);
			assert_int_equal(got.readable, rows[i].read);
			assert_int_equal(got.writable, rows[i].write);
			assert_int_equal(got.file, rows[i].file);
			if (rows[i].no_read >= 0)
				assert_int_equal(got.no_read,
						 (uintptr_t)map + (size_t)rows[i].no_read * page);
			if (rows[i].no_write >= 0)
				assert_int_equal(got.no_write,
						 (uintptr_t)map + (size_t)rows[i].no_write * page);
			assert_string_equal(got.read_perms, rows[i].read_perms);
			assert_string_equal(got.write_perms, rows[i].write_perms);
		}
	}
}

/* What nobody can truncate needs no kernel: anonymous memory that is shared, too. */
static void only_files_shrink(void **state)
{
	uint8_t *shared =
		mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct sys_maps got;

	(void)state;
	assert_true(shared != MAP_FAILED);
	for (size_t by = 0; by < 2; by++) {
		assert_int_equal(looks[by](shared, page, &got), 0);
		assert_int_equal(got.file, 0);
		assert_int_equal(looks[by](&page, sizeof(page), &got),
				 0); /* of the program's file */
		assert_true(got.readable && got.writable);
	}
	munmap(shared, page);
}

static void copies_end_where_memory_does(void **state)
{
	uint8_t *two = map + FD_AT * page, *ours = malloc(4 * page);

	(void)state;
	assert_non_null(ours);
	for (int by_pipe = 0; by_pipe < 2; by_pipe++) {
		atomic_store(&sys_user_by_pipe, by_pipe);
		memset(ours, 7 + by_pipe, 4 * page);
		assert_int_equal(sys_user_write(two + 1, ours, page), page);
		assert_int_equal(two[1], 7 + by_pipe);
		assert_int_equal(two[page], 7 + by_pipe);
		memset(ours, 0, 4 * page);
		assert_int_equal(sys_user_read(ours, two + 1, page), page);
		assert_int_equal(ours[0], 7 + by_pipe);
		assert_int_equal(ours[page - 1], 7 + by_pipe);
		assert_int_equal(sys_user_read(ours, two, 0), 0);
		assert_int_equal(sys_user_read(ours, two, 4 * page), 2 * page);
		assert_int_equal(sys_user_write(two, ours, 4 * page), 2 * page);
		assert_int_equal(sys_user_read(ours, two + 2 * page, 1), 0);
		assert_int_equal(sys_user_write(map + page, ours, 1), 0); /* read-only */
		assert_int_equal(sys_user_read(ours, map + page, page), page);
		assert_int_equal(sys_user_read(ours, map + 3 * page, 1), 0); /* nothing there */
	}
	atomic_store(&sys_user_by_pipe, 0);
	free(ours);
}

static void large_copies_by_a_pipe(void **state)
{
	size_t n = 3000001;
	uint8_t *from = malloc(n), *to = calloc(1, n);

	(void)state;
	assert_true(from && to);
	for (size_t i = 0; i < n; i++)
		from[i] = (uint8_t)(i * 31 >> 3);
	atomic_store(&sys_user_by_pipe, 1);
	assert_int_equal(sys_user_read(to, from, n), n);
	atomic_store(&sys_user_by_pipe, 0);
	assert_memory_equal(to, from, n);
	free(from);
	free(to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_page_counts),
		cmocka_unit_test(only_files_shrink),
		cmocka_unit_test(copies_end_where_memory_does),
		cmocka_unit_test(large_copies_by_a_pipe),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}
