/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the probes: one-line files, rows of NICs, and running this program in a child
 * process, because a plugin or driver may hang or crash. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "doctor_probe.h"

#define ARGS_MAX 31

extern char **environ;

int doctor_read_line(const char *path, char *line, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = -1;

	*line = '\0';
	if (fd < 0)
		return -1;
	got = read(fd, line, cap - 1);
	close(fd);
	line[got < 0 ? 0 : got] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return got < 0 ? -1 : 0;
}

int doctor_nic_row(struct doctor_facts *facts, const char *name)
{
	const char *text;
	unsigned i = 0;

	for (; (text = doctor_text(facts, "nic.%u.name", i)); i++)
		if (!strcmp(text, name))
			return (int)i;
	if (i == DOCTOR_INDEX_MAX)
		return -1;
	doctor_put_text(facts, name, "nic.%u.name", i);
	return (int)i;
}

int doctor_line_after(const char *text, const char *name, char *out, size_t cap)
{
	size_t len = strlen(name);

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		if (strncmp(text, name, len))
			continue;
		text += len;
		snprintf(out, cap, "%.*s", (int)strcspn(text, "\n"), text);
		return 0;
	}
	return -1;
}

/* Reads until the other side closes. Returns 0, or -1 at the deadline. */
static int read_until(int fd, int64_t deadline_ns, char *text, size_t cap)
{
	size_t used = 0;

	text[0] = '\0';
	for (;;) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		int64_t left = deadline_ns - clock_now_ns();
		char rest[512];
		ssize_t got;

		if (left <= 0 || poll(&pfd, 1, (int)(left / CLOCK_MS_NS) + 1) < 0)
			return -1;
		if (!pfd.revents)
			continue;
		if (used < cap - 1)
			got = read(fd, text + used, cap - 1 - used);
		else
			got = read(fd, rest, sizeof(rest));
		if (got <= 0)
			return got < 0 ? -1 : 0;
		if (used < cap - 1)
			used += (size_t)got;
		text[used] = '\0';
	}
}

static int ask_spawn(const char *const *args, int out_fd, pid_t *out_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	char *argv[ARGS_MAX + 2] = {"tcpx"};
	sigset_t all;
	int rc;

	for (unsigned i = 0; args[i] && i < ARGS_MAX; i++)
		argv[i + 1] = (char *)args[i];
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out_fd, STDERR_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigdefault(&attributes, &all);
	rc = posix_spawn(out_pid, "/proc/self/exe", &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

void doctor_ask_start(struct doctor_asked *asked, const char *const *args)
{
	int ends[2];
	pid_t pid;

	asked->fd = -1;
	if (pipe2(ends, O_CLOEXEC))
		return;
	if (ask_spawn(args, ends[1], &pid)) {
		close(ends[0]);
	} else {
		asked->fd = ends[0];
		asked->pid = pid;
	}
	close(ends[1]);
}

void doctor_ask_call(struct doctor_asked *asked, void (*say)(void))
{
	int ends[2];

	asked->fd = -1;
	if (pipe2(ends, O_CLOEXEC))
		return;
	asked->pid = fork();
	if (!asked->pid) {
		if (dup2(ends[1], STDOUT_FILENO) < 0)
			_exit(1);
		say();
		_exit(fflush(stdout) != 0);
	}
	close(ends[1]);
	if (asked->pid < 0)
		close(ends[0]);
	else
		asked->fd = ends[0];
}

int doctor_ask_end(struct doctor_asked *asked, int64_t deadline_ns, char *text, size_t cap)
{
	int status = -1, late;

	*text = '\0';
	if (asked->fd < 0)
		return -1;
	late = read_until(asked->fd, deadline_ns, text, cap);
	close(asked->fd);
	asked->fd = -1;
	if (late)
		kill(asked->pid, SIGKILL);
	while (waitpid(asked->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (late)
		snprintf(text, cap, "no answer in time");
	else if (!WIFEXITED(status) && !*text)
		snprintf(text, cap, "crashed, signal %d", WTERMSIG(status));
	return !late && WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -1;
}

int doctor_ask_self(const char *const *args, int64_t deadline_ns, char *text, size_t cap)
{
	struct doctor_asked asked;

	doctor_ask_start(&asked, args);
	return doctor_ask_end(&asked, deadline_ns, text, cap);
}
