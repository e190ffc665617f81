/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command. */
#include "diag_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli_output.h"

#define LINE_MAX_BYTES 65536
#define SAMPLE_NS (1 * CLOCK_S_NS)

extern char **environ;

/* An output stream of the command. */
struct stream {
	int fd;
	FILE *to, *log;
	struct diag_mask *mask;
	size_t used;
	char line[LINE_MAX_BYTES];
};

/* Writes whole lines to the log, so that no word is split before it is masked. */
static void log_lines(struct stream *s, int all)
{
	char *end = memrchr(s->line, '\n', s->used);
	size_t whole = end ? (size_t)(end - s->line) + 1 : 0;

	if (all || (!whole && s->used == sizeof(s->line)))
		whole = s->used;
	diag_mask_write(s->mask, s->line, whole, s->log);
	memmove(s->line, s->line + whole, s->used - whole);
	s->used -= whole;
}

/* Copies what has arrived. Returns 0, or -1 at the end of the stream. */
static int diag_run_take(struct stream *s)
{
	ssize_t got = read(s->fd, s->line + s->used, sizeof(s->line) - s->used);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0) {
		close(s->fd);
		s->fd = -1;
		return -1;
	}
	fwrite(s->line + s->used, 1, (size_t)got, s->to);
	cli_flush(s->to);
	s->used += (size_t)got;
	log_lines(s, 0);
	return 0;
}

static int diag_run_start(const struct diag_run *run, int out_fd, int err_fd, pid_t *out_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t ours;
	int rc;

	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE); /* ignored by this process, but not by the command */
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, err_fd, STDERR_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigdefault(&attributes, &ours);
	rc = posix_spawnp(out_pid, run->argv[0], &actions, &attributes, run->argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

static void sample(struct diag_run *run, pid_t pid)
{
	struct diag_snapshot now;

	if (diag_snapshot_take(&now, pid))
		return;
	diag_snapshot_free(&run->during);
	run->during = now;
	run->taken++;
}

/* Follows the command to its end. Processes that it started may keep its streams open and are
 * not waited for. */
static void diag_run_follow(struct diag_run *run, pid_t pid, struct stream streams[2])
{
	int handle = (int)syscall(SYS_pidfd_open, pid, 0), told = 0;
	int64_t next_ns = clock_after(SAMPLE_NS);

	sample(run, pid);
	for (;;) {
		struct pollfd fds[3] = {{streams[0].fd, POLLIN, 0},
					{streams[1].fd, POLLIN, 0},
					{handle, POLLIN, 0}};
		int64_t left = next_ns - clock_now_ns();

		poll(fds, 3, left > 0 ? (int)(left / CLOCK_MS_NS) + 1 : 0);
		for (unsigned i = 0; i < 2; i++)
			if (fds[i].revents)
				diag_run_take(&streams[i]);
		if (cli_interrupted && !told) {
			told = 1;
			kill(pid, SIGTERM);
		}
		if (fds[2].revents || (handle < 0 && streams[0].fd < 0 && streams[1].fd < 0))
			break;
		if (clock_now_ns() >= next_ns) {
			sample(run, pid);
			next_ns = clock_after(SAMPLE_NS);
		}
	}
	if (handle >= 0)
		close(handle);
}

/* Copies what is left in the pipe after the end. */
static void diag_run_drain(struct stream *s)
{
	struct pollfd fd = {s->fd, POLLIN, 0};

	while (s->fd >= 0 && poll(&fd, 1, 0) > 0)
		if (diag_run_take(s))
			break;
	log_lines(s, 1);
	if (s->fd >= 0)
		close(s->fd);
}

int diag_run_command(struct diag_run *run)
{
	static struct stream streams[2];
	int out[2], err[2], rc, status = 0;
	int64_t start_ns = clock_now_ns();
	pid_t pid;

	if (pipe2(out, O_CLOEXEC))
		return -1;
	if (pipe2(err, O_CLOEXEC)) {
		close(out[0]);
		close(out[1]);
		return -1;
	}
	streams[0] = (struct stream){.fd = out[0], .to = stdout, .log = run->out_log};
	streams[1] = (struct stream){.fd = err[0], .to = stderr, .log = run->err_log};
	streams[0].mask = streams[1].mask = run->mask;
	rc = diag_run_start(run, out[1], err[1], &pid);
	close(out[1]);
	close(err[1]);
	if (!rc) {
		diag_run_follow(run, pid, streams);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	diag_run_drain(&streams[0]);
	diag_run_drain(&streams[1]);
	run->seconds = (double)(clock_now_ns() - start_ns) / 1e9;
	run->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (rc) {
		run->code = 127;
		cli_error("cannot run %s: %s", run->argv[0], strerror(rc));
		fprintf(run->err_log, "cannot run %s: %s\n", run->argv[0], strerror(rc));
	}
	return 0;
}
