/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a function in a forked child of a test that has threads. C and C++. */
#ifndef SUPPORT_IN_CHILD_H
#define SUPPORT_IN_CHILD_H

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* AddressSanitizer's allocator does not survive a fork while another thread is inside it: such a
 * child hangs in its first malloc(). It is then tried again. */
#if defined(__SANITIZE_ADDRESS__)
#define IN_CHILD_TRIES 5
#else
#define IN_CHILD_TRIES 1
#endif
#define IN_CHILD_SECONDS (80 / IN_CHILD_TRIES) /* a guard; all tries are within a case's own */

/* Returns the child's wait status, which is 0 if the function returned, or -1 without a child. The
 * child ends with its parent, and by SIGALRM if it hangs. */
static inline int in_child(void (*run)(void *arg), void *arg)
{
	int status = 0, tries = IN_CHILD_TRIES;

	do {
		pid_t pid;

		fflush(NULL);
		pid = fork();
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			signal(SIGALRM, SIG_DFL);
			alarm(IN_CHILD_SECONDS);
			run(arg);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return -1;
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM)
			break;
		fprintf(stderr, "a forked child hung for %d s\n", IN_CHILD_SECONDS);
	} while (--tries);
	return status;
}

#endif
