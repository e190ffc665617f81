/* SPDX-License-Identifier: Apache-2.0 */
/* --loopback: starts and ends a serve process. */
#include "perf_loopback.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli_output.h"

#define READY_NS (15 * CLOCK_S_NS)
#define ARGS_MAX 32

static pid_t child = -1;
/* kept open, so that later lines of the process do not hit a closed pipe */
static int child_out = -1;

/* Reads up to the end of the line "ready ADDR:PORT". */
static tcpx_status read_ready(char address[PERF_ADDRESS_TEXT])
{
	int64_t limit = clock_now_ns() + READY_NS;
	char text[512], *line, *end;
	size_t used = 0;

	while (used + 1 < sizeof(text)) {
		struct pollfd pfd = {.fd = child_out, .events = POLLIN};
		ssize_t n;

		if (cli_interrupted)
			return error_set(TCPX_ERR_CANCELLED, 0, "interrupted");
		if (clock_now_ns() > limit)
			return error_set(TCPX_ERR_TIMED_OUT, 0,
					 "the serve process did not become ready");
		if (poll(&pfd, 1, 100) <= 0)
			continue;
		n = read(child_out, text + used, sizeof(text) - used - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			error_set(TCPX_ERR_PEER_CLOSED, 0, "the serve process ended at once");
			return error_next("look at what it printed above");
		}
		used += (size_t)n;
		text[used] = 0;
		line = strstr(text, "ready ");
		end = line ? strchr(line, '\n') : NULL;
		if (!end)
			continue;
		snprintf(address, PERF_ADDRESS_TEXT, "%.*s", (int)(end - line - 6), line + 6);
		return TCPX_OK;
	}
	return error_set(TCPX_ERR_PROTOCOL, 0, "the serve process printed no ready line");
}

static tcpx_status spawn(const char *const argv[])
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int fds[2], err;

	if (pipe2(fds, O_CLOEXEC))
		return error_set(TCPX_ERR_NO_DESCRIPTORS, errno, "a pipe to the serve process");
	err = posix_spawn_file_actions_init(&actions);
	if (!err)
		err = posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	if (!err)
		err = posix_spawnattr_init(&attr);
	sigemptyset(&none);
	if (!err) {
		posix_spawnattr_setsigmask(&attr, &none);
		/* its own process group: Ctrl-C must reach perf only, which ends the child */
		posix_spawnattr_setpgroup(&attr, 0);
		posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
		err = posix_spawn(&child, "/proc/self/exe", &actions, &attr, (char *const *)argv,
				  environ);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	if (err) {
		child = -1;
		close(fds[0]);
		return error_set(TCPX_ERR_SYSTEM, err, "the serve process cannot be started");
	}
	child_out = fds[0];
	return TCPX_OK;
}

/* Adds plugin options for the other end. Variables that it inherits count as set by the user. */
static int add_plugin(const struct perf_options *o, const struct perf_path *path,
		      const char *argv[], int argc)
{
	static char channels[24], gpu[16];
	struct perf_place remote = perf_place_of(o->remote_mem, 0);

	if (!perf_by_plugin(path->want))
		return argc;
	argv[argc++] = path->want == PERF_TRANSPORT_PLUGIN ? "--transport=plugin"
							   : "--transport=gpudirect";
	argv[argc++] = "--plugin";
	argv[argc++] = o->plugin.file;
	if (o->plugin.nic) {
		argv[argc++] = "--nic";
		argv[argc++] = o->plugin.nic;
	}
	if (o->plugin.channels) {
		snprintf(channels, sizeof(channels), "%llu",
			 (unsigned long long)o->plugin.channels);
		argv[argc++] = "--plugin-channels";
		argv[argc++] = channels;
	}
	if (path->want == PERF_TRANSPORT_GPUDIRECT) {
		snprintf(gpu, sizeof(gpu), "%u", remote.device);
		argv[argc++] = "--gpu";
		argv[argc++] = gpu;
	}
	return argc;
}

tcpx_status perf_loopback_start(const struct perf_options *options, const struct perf_path *path,
				char address[PERF_ADDRESS_TEXT])
{
	const char *argv[ARGS_MAX] = {"tcpx",
				      "serve",
				      "--port=0",
				      "--once",
				      "--quiet",
				      "--die-with-parent",
				      "--max-memory=1T",
				      "--bind",
				      options->bind};
	char channels[16], chunk[16];
	int argc = 9;
	tcpx_status status;

	if (options->busy_poll)
		argv[argc++] = "--busy-poll";
	if (options->insecure)
		argv[argc++] = "--insecure";
	if (options->key) {
		argv[argc++] = "--key";
		argv[argc++] = options->key;
	}
	if (path->want_channels) {
		snprintf(channels, sizeof(channels), "%u", path->want_channels);
		argv[argc++] = "--channels";
		argv[argc++] = channels;
	}
	if (path->want_chunk) {
		snprintf(chunk, sizeof(chunk), "%u", path->want_chunk);
		argv[argc++] = "--chunk";
		argv[argc++] = chunk;
	}
	add_plugin(options, path, argv, argc);
	status = spawn(argv);
	if (status == TCPX_OK)
		status = read_ready(address);
	if (status != TCPX_OK)
		perf_loopback_stop(0);
	return status;
}

void perf_loopback_stop(int politely)
{
	int64_t start = clock_now_ns(), waited = 0;
	int asked = 0;

	if (child < 0)
		return;
	while (waitpid(child, NULL, WNOHANG) == 0) {
		waited = clock_now_ns() - start;
		if (!asked && (!politely || waited > 2 * CLOCK_S_NS)) {
			kill(child, SIGTERM);
			kill(child, SIGCONT); /* a stopped process does not see SIGTERM */
			asked = 1;
		}
		if (waited > (politely ? 4 : 2) * CLOCK_S_NS)
			kill(child, SIGKILL);
		nanosleep(&(struct timespec){.tv_nsec = CLOCK_MS_NS}, NULL);
	}
	child = -1;
	close(child_out);
	child_out = -1;
}
