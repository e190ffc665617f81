/* SPDX-License-Identifier: Apache-2.0 */
/* Stops single threads of a process, by id, until stdin ends; the rest of the process goes on. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char byte;

	for (int i = 1; i < argc; i++) {
		pid_t tid = atoi(argv[i]);

		if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) ||
		    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) ||
		    waitpid(tid, NULL, __WALL) != tid) {
			fprintf(stderr, "thread %d: %s\n", (int)tid, strerror(errno));
			return 1;
		}
	}
	puts("frozen");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	for (int i = 1; i < argc; i++)
		ptrace(PTRACE_DETACH, atoi(argv[i]), NULL, NULL);
	puts("thawed");
	return 0;
}
