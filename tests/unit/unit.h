/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with the headers it wants, and golden bytes. */
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "golden.h"

/* The bytes are those of the golden file. */
static inline void assert_golden(const char *name, const void *bytes, size_t len)
{
	uint8_t want[4096];
	size_t want_len = golden_read(name, want, sizeof(want));

	if (!want_len)
		fail_msg("tests/golden/%s.hex is missing or malformed", name);
	assert_int_equal(len, want_len);
	assert_memory_equal(bytes, want, want_len);
}

/* Runs fn in a child process; what it returned. */
static inline int in_child(int (*fn)(void))
{
	int status = -1;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

#endif
