/* SPDX-License-Identifier: Apache-2.0 */
/* Runs schedules: sim [--seed S] [--runs N] [--list FILE] [--harsh] [--verbose]. A failing seed is
 * printed and replays exactly. --harsh: all memory is staged, in the smallest pools. */
#include "sim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANG_SECONDS 60 /* of one schedule; a guard, no verdict about speed */

static struct sim sim;

/* A crash or a hang inside the core names its seed too. */
static void crashed(int sig)
{
	char text[128];
	int len = snprintf(text, sizeof(text),
			   "FAIL seed %" PRIu64 ": signal %d\nreplay: sim --seed %" PRIu64
			   " --runs 1%s --verbose\n",
			   sim.seed, sig, sim.seed, sim.harsh ? " --harsh" : "");

	if (len > 0 && write(STDERR_FILENO, text, (size_t)len) < 0)
		_exit(1);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void totals_add(uint64_t *sum, size_t count)
{
	const uint64_t *one = (const uint64_t *)&sim.count;

	for (size_t i = 0; i < count; i++)
		sum[i] += one[i];
}

static int run_one(uint64_t seed, uint64_t *sum)
{
	alarm(HANG_SECONDS);
	if (sim_schedule(&sim, seed, NULL, NULL)) {
		fprintf(stderr,
			"FAIL seed %" PRIu64 " at %lld: %s\nreplay: sim --seed %" PRIu64
			" --runs 1%s --verbose\n",
			seed, (long long)sim.now, sim.why, seed, sim.harsh ? " --harsh" : "");
		return 1;
	}
	totals_add(sum, sizeof(sim.count) / sizeof(*sum));
	return 0;
}

static int run_list(const char *path, uint64_t *sum, uint64_t *runs)
{
	FILE *file = fopen(path, "r");
	char line[256];
	int bad = 0;

	if (!file) {
		perror(path);
		return 2;
	}
	while (!bad && fgets(line, sizeof(line), file)) {
		if (line[0] < '0' || line[0] > '9')
			continue;
		bad = run_one(strtoull(line, NULL, 10), sum);
		++*runs;
	}
	fclose(file);
	return bad;
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, runs = 1000, i, done = 0;
	uint64_t sum[sizeof(sim.count) / sizeof(uint64_t)] = {0};
	const char *list = NULL;
	int bad = 0;

	for (int a = 1; a < argc; a++) {
		if (!strcmp(argv[a], "--seed") && a + 1 < argc)
			seed = strtoull(argv[++a], NULL, 0);
		else if (!strcmp(argv[a], "--runs") && a + 1 < argc)
			runs = strtoull(argv[++a], NULL, 0);
		else if (!strcmp(argv[a], "--list") && a + 1 < argc)
			list = argv[++a];
		else if (!strcmp(argv[a], "--verbose"))
			sim.verbose = true;
		else if (!strcmp(argv[a], "--harsh"))
			sim.harsh = true;
		else {
			fprintf(stderr, "usage: sim [--seed S] [--runs N] [--list FILE] [--harsh] "
					"[--verbose]\n");
			return 2;
		}
	}
	signal(SIGALRM, crashed);
	signal(SIGSEGV, crashed);
	signal(SIGBUS, crashed);
	signal(SIGABRT, crashed);
	signal(SIGFPE, crashed);
	if (list)
		bad = run_list(list, sum, &done);
	for (i = 0; i < runs && !bad; i++, done++)
		bad = run_one(seed + i, sum);
	printf("%" PRIu64 " schedules: posts %" PRIu64 ", done %" PRIu64 ", failed %" PRIu64
	       ", notifications %" PRIu64 " (%" PRIu64
	       " behind their WRITE), channels lost %" PRIu64 ", resent %" PRIu64
	       ", aborted %" PRIu64 ", refused %" PRIu64 ", commits %" PRIu64 ", fills %" PRIu64
	       ", by reference %" PRIu64 " (%" PRIu64 " as messages), by the prio %" PRIu64 "%s\n",
	       done, sum[0], sum[1], sum[2], sum[3], sum[10], sum[7], sum[4], sum[5], sum[6],
	       sum[8], sum[9], sum[11], sum[12], sum[13], bad ? ": FAILED" : "");
	free(sim.heap);
	sim_arena_free();
	return bad;
}
