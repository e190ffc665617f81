/* SPDX-License-Identifier: Apache-2.0 */
/* Checks for plain test programs: each case runs in a process of its own, under a hang guard. */
#ifndef SUPPORT_CHECK_H
#define SUPPORT_CHECK_H

#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK_SKIP 77
#define CHECK_HANG_SECONDS 120 /* a wide guard, never a verdict about speed */

/* For a whole case. The case's own guard does not see an exit that hangs, in a leak check say. */
#define CHECK_CASE_SECONDS 400 /* 10 times as long in the long form */

#define CHECK_UNUSED __attribute__((unused))

__attribute__((weak)) const char *check_name = "main"; /* one in the whole program */

/* Says why and ends the case's process; atexit handlers and leak checks do not run. */
__attribute__((noreturn, format(printf, 3, 4))) CHECK_UNUSED static void
check_fail(const char *file, int line, const char *format, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "%s:%d: %s: ", file, line, check_name);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	fflush(stderr);
	_exit(1);
}

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			check_fail(__FILE__, __LINE__, "not true: %s", #cond);                     \
	} while (0)

/* The same with a sentence of its own. */
#define CHECK_MSG(cond, ...)                                                                       \
	do {                                                                                       \
		if (!(cond))                                                                       \
			check_fail(__FILE__, __LINE__, __VA_ARGS__);                               \
	} while (0)

#define CHECK_CMP(a, op, b)                                                                        \
	do {                                                                                       \
		long long check_a = (long long)(a), check_b = (long long)(b);                      \
		if (!(check_a op check_b))                                                         \
			check_fail(__FILE__, __LINE__, "not true: %s %s %s: %lld, %lld", #a, #op,  \
				   #b, check_a, check_b);                                          \
	} while (0)
#define CHECK_EQ(a, b) CHECK_CMP(a, ==, b)

#define CHECK_STR(a, b)                                                                            \
	do {                                                                                       \
		const char *check_a = (a), *check_b = (b);                                         \
		if (strcmp(check_a, check_b) != 0)                                                 \
			check_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #a, check_a,    \
				   check_b);                                                       \
	} while (0)

/* Ends the case as skipped, with the reason. */
#define SKIP(...)                                                                                  \
	do {                                                                                       \
		fprintf(stderr, "%s: skipped: ", check_name);                                      \
		fprintf(stderr, __VA_ARGS__);                                                      \
		fputc('\n', stderr);                                                               \
		fflush(stdout);                                                                    \
		_exit(CHECK_SKIP);                                                                 \
	} while (0)

CHECK_UNUSED static void check_hung(int sig)
{
	char text[160];
	int len =
		snprintf(text, sizeof(text), "%s: hung for %d s\n", check_name, CHECK_HANG_SECONDS);

	(void)sig;
	if (len > 0 && write(STDERR_FILENO, text, (size_t)len) < 0)
		_exit(1);
	_exit(1);
}

/* Starts the hang guard again; for programs and long cases that show progress. */
CHECK_UNUSED static void check_alive(void)
{
	signal(SIGALRM, check_hung);
	alarm(CHECK_HANG_SECONDS);
}

CHECK_UNUSED static double check_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

struct check_case {
	const char *name;
	void (*run)(void *arg);
};

struct check_result {
	int passed, failed, skipped;
};

/* Prints each thread of the process: its name, where it waits in the kernel, its system call. */
CHECK_UNUSED static void check_say_threads(pid_t pid)
{
	static const char *const files[] = {"comm", "wchan", "syscall"};
	char path[300], text[128];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		fprintf(stderr, "  thread %s:", entry->d_name);
		for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
			FILE *file;

			snprintf(path, sizeof(path), "/proc/%d/task/%.20s/%s", (int)pid,
				 entry->d_name, files[i]);
			file = fopen(path, "r");
			if (file && fgets(text, sizeof(text), file)) {
				text[strcspn(text, "\n")] = 0;
				fprintf(stderr, " %s", text);
			}
			if (file)
				fclose(file);
		}
		fputc('\n', stderr);
	}
	if (tasks)
		closedir(tasks);
}

/* Waits for the end of a case's process; ends one that takes longer than CHECK_CASE_SECONDS.
 * Returns its status, or -1. */
CHECK_UNUSED static int check_case_wait(pid_t pid, const char *name)
{
	const char *text = getenv("TEST_LONG");
	int seconds = CHECK_CASE_SECONDS * (text && !strcmp(text, "1") ? 10 : 1);
	int status, fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd end = {.fd = fd, .events = POLLIN};

	if (fd >= 0 && poll(&end, 1, seconds * 1000) == 0) {
		fprintf(stderr, "%s: has not ended after %d s\n", name, seconds);
		check_say_threads(pid);
		kill(pid, SIGKILL);
	}
	if (fd >= 0)
		close(fd);
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* Runs one case in a child and counts its end. */
CHECK_UNUSED static void check_case_run(const struct check_case *one, void *arg,
					struct check_result *result)
{
	double begin = check_seconds();
	const char *word = "ok";
	int status = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		check_name = one->name;
		check_alive();
		one->run(arg);
		exit(0); /* with leak checks */
	}
	if (pid < 0 || (status = check_case_wait(pid, one->name)) < 0) {
		perror("fork");
		status = 1 << 8;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		result->passed++;
	} else if (WIFEXITED(status) && WEXITSTATUS(status) == CHECK_SKIP) {
		word = "skip";
		result->skipped++;
	} else {
		word = "FAIL";
		result->failed++;
	}
	printf("%-4s %s (%.2f s)", word, one->name, check_seconds() - begin);
	if (WIFSIGNALED(status))
		printf(" signal %d", WTERMSIG(status));
	printf("\n");
	fflush(stdout);
}

/* Prints the count line; returns the program's exit status. */
CHECK_UNUSED static int check_end(const struct check_result *result)
{
	printf("%d passed, %d failed, %d skipped\n", result->passed, result->failed,
	       result->skipped);
	if (result->failed)
		return 1;
	return result->passed || !result->skipped ? 0 : CHECK_SKIP;
}

/* Runs the cases whose name contains only (NULL: all). */
CHECK_UNUSED static int check_main(const struct check_case *cases, size_t count, const char *only,
				   void *arg)
{
	struct check_result result = {0};

	for (size_t i = 0; i < count; i++)
		if (!only || strstr(cases[i].name, only))
			check_case_run(&cases[i], arg, &result);
	return check_end(&result);
}

#endif
