/* SPDX-License-Identifier: Apache-2.0 */
/* One process for each chunk of a list. */
#include "perf_chunks.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli_output.h"
#include "perf_json.h"

#define ADDED 4

/* One run: its arguments, and where its document goes. */
struct run {
	char **argv;
	char chunk[40], json[40], timeout[40];
	int fd; /* descriptor of the document; -1: not requested */
};

static int perf_chunks_prepare(struct run *run, const struct perf_options *o, uint64_t chunk,
			       int64_t began_ns, int argc, char *const *argv)
{
	int n = 0;

	*run = (struct run){.fd = -1};
	run->argv = calloc((size_t)argc + 1 + ADDED, sizeof(*run->argv));
	if (run->argv && o->json)
		run->fd = memfd_create("tcpx-json", 0); /* inherited: the run opens it by name */
	if (!run->argv || (o->json && run->fd < 0)) {
		cli_error("--chunk: no memory for a run");
		return -1;
	}
	run->argv[n++] = "tcpx";
	for (int i = 0; i < argc; i++)
		run->argv[n++] = argv[i];
	snprintf(run->chunk, sizeof(run->chunk), "--chunk=%llu", (unsigned long long)chunk);
	run->argv[n++] = run->chunk; /* the last one counts */
	if (o->json) {
		snprintf(run->json, sizeof(run->json), "--json=/dev/fd/%d", run->fd);
		run->argv[n++] = run->json;
	}
	if (o->timeout > 0) {
		double left = o->timeout - (double)(clock_now_ns() - began_ns) / 1e9;

		snprintf(run->timeout, sizeof(run->timeout), "--timeout=%.3f",
			 left > 0.001 ? left : 0.001);
		run->argv[n++] = run->timeout;
	}
	return 0;
}

/* Runs the process to its end and returns the exit code. */
static int perf_chunks_follow(struct run *run, int table_to)
{
	posix_spawn_file_actions_t actions;
	int err, status = 0, told = 0;
	pid_t pid;

	cli_flush(stdout);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, table_to, STDOUT_FILENO);
	err = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, run->argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (err) {
		cli_error("--chunk: a run cannot be started: %s", strerror(err));
		return CLI_FAILED;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		if (cli_interrupted && !told++)
			kill(pid, SIGTERM);
	return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_FAILED;
}

static struct cli_json *perf_chunks_read_document(const struct run *run)
{
	FILE *in = run->fd < 0 ? NULL : fdopen(dup(run->fd), "re");
	struct cli_json *json = NULL;

	if (in) {
		rewind(in);
		json = cli_json_read(in);
		fclose(in);
	}
	return json;
}

int perf_chunks_run(const struct perf_options *o, int argc, char *const *argv)
{
	int to_stdout = o->json && !strcmp(o->json, "-"), code = CLI_OK;
	FILE *out = o->json ? cli_json_open(o->json) : NULL;
	uint32_t each = perf_path_count(o) / o->chunks.count;
	struct cli_json *all = NULL, *one;
	int64_t began_ns = clock_now_ns();

	if (o->json && !out)
		return CLI_FAILED;
	for (uint32_t i = 0; i < o->chunks.count && code == CLI_OK && !cli_interrupted; i++) {
		struct run run;

		if (perf_chunks_prepare(&run, o, o->chunks.values[i], began_ns, argc, argv))
			code = CLI_FAILED;
		else
			code = perf_chunks_follow(&run, to_stdout ? STDERR_FILENO : STDOUT_FILENO);
		one = perf_chunks_read_document(&run);
		if (all)
			perf_json_merge(all, one, i * each);
		else if (one)
			perf_json_merge(all = one, NULL, 0);
		if (one != all)
			cli_json_free(one);
		if (run.fd >= 0)
			close(run.fd);
		free(run.argv);
	}
	if (cli_interrupted && code == CLI_OK)
		code = CLI_FAILED;
	if (out && (!all || cli_json_write(all, out, o->json)) && code == CLI_OK)
		code = CLI_FAILED;
	cli_json_free(all);
	return code;
}
