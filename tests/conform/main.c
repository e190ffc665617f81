/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the conformance cases in one configuration. */
#include <getopt.h>

#include "conform.h"
#include "runtime_refs.h"
#include "sys/crypto.h"

struct config config = {.transport = "tcp", .processes = 1, .family = 4};
char **program;

static const struct case_row *const tables[] = {
	cases_connect, cases_early,	 cases_query,	 cases_region,	 cases_bytes,
	cases_list,    cases_send,	 cases_notify,	 cases_patience, cases_end,
	cases_reject,  cases_handle,	 cases_loop,	 cases_queue,	 cases_life,
	cases_threads, cases_deregister, cases_lease,	 cases_keyless,	 cases_held,
	cases_vanish,  cases_again,	 cases_identity, cases_bound,	 cases_late,
};

void await_runtime(void)
{
	const struct timespec moment = {0, MS};

	for (int i = 0; i < 1000 && runtime_refs(); i++)
		nanosleep(&moment, NULL);
}

static void run_case(void *arg)
{
	const struct case_row *row = arg;
	struct env env = {.fd = -1};

	if (!(row->flags & CASE_BARE))
		env_open(&env);
	row->run(&env);
	env_close(&env);
	buf_free_all();
	await_runtime();
	gpu_check_empty();
	plugin_check();
}

/* The driver is not asked before this process has forked its cases: it would not survive that. */
static void look(void *arg)
{
	(void)arg;
	gpu_look();
}

/* A part of the name is among the texts, which commas separate. */
static bool named(const char *name, const char *texts)
{
	char part[64];

	for (const char *at = texts; *at; at += strcspn(at, ","), at += *at == ',') {
		snprintf(part, sizeof(part), "%.*s", (int)strcspn(at, ","), at);
		if (strstr(name, part))
			return true;
	}
	return false;
}

static int wanted(const struct case_row *row, const char *only, bool once)
{
	if (only && !named(row->name, only))
		return 0;
	if ((row->flags & CASE_ONCE) && !once)
		return 0;
	if ((row->flags & CASE_HEAVY) && config.light)
		return 0;
	if ((row->flags & CASE_KEYLESS) && sys_crypto_available())
		return 0;
	if ((row->flags & CASE_CRYPTO) && !sys_crypto_available())
		return 0;
	if ((row->flags & CASE_PLAIN) && !conform_plain())
		return 0;
	if ((row->flags & CASE_GPU) && config.mem.kind != TCPX_MEM_CUDA)
		return 0;
	if ((row->flags & CASE_BREAKS) && conform_plugin())
		return 0;
	if ((row->flags & CASE_NEAR) && (config.processes == 2 || config.filters))
		return false;
	return !(row->flags & CASE_TWO) || config.processes == 2;
}

static bool uses_gpu(void)
{
	return config.mem.kind == TCPX_MEM_CUDA || config.far_mem.kind == TCPX_MEM_CUDA;
}

static bool place_parse(const char *text, struct place *out)
{
	static const struct place none;
	char *end;

	*out = none;
	if (!strcmp(text, "host") || !strcmp(text, "slow") || !strcmp(text, "file")) {
		out->kind = text[0] == 's' ? MEM_KIND_TEST : TCPX_MEM_HOST;
		out->file = text[0] == 'f';
		return true;
	}
	out->kind = TCPX_MEM_CUDA;
	if (strncmp(text, "cuda", 4) != 0)
		return false;
	text += 4;
	if (strncmp(text, "-vmm", 4) == 0)
		out->from = PLACE_MAPPED;
	else if (strncmp(text, "-pool", 5) == 0)
		out->from = PLACE_POOL;
	text += out->from == PLACE_MAPPED ? 4 : out->from == PLACE_POOL ? 5 : 0;
	if (text[0] && text[0] != ':')
		return false;
	out->device = text[0] ? (uint32_t)strtoul(text + 1, &end, 10) : 0;
	return !text[0] || (text[1] && !*end);
}

static void usage(FILE *out)
{
	fputs("conform [--transport tcp|local|plugin] [--mem KIND] [--far-mem KIND]\n"
	      "        [--plugin FILE] [--filters SPEC]\n"
	      "        [--processes 1|2] [--family 4|6] [--one-copy] [--light | --short] [--once]\n"
	      "        [--near ADDR[,ADDR] --far ADDR[,ADDR] --far-netns NAME --key FILE]\n"
	      "        [--case TEXT[,TEXT...]] [--list]\n"
	      "KIND is host, file (the host's, of a file), slow, cuda or cuda:N (GPU N), cuda-vmm "
	      "or cuda-vmm:N (mapped by\n"
	      "addresses), cuda-pool or cuda-pool:N (of a pool that other processes may open); "
	      "--far-mem is as --mem if not given.\n"
	      "--once runs the cases that do not depend on the configuration, too.\n"
	      "--plugin FILE is TCPX_TEST_PLUGIN if not given.\n"
	      "Exit 77: no CUDA driver here, no such GPU, or no plugin.\n",
	      out);
}

/* The text an option sets, or NULL. */
static const char **text_of(int c)
{
	switch (c) {
	case 't':
		return &config.transport;
	case 'f':
		return &config.filters;
	case 'N':
		return &config.near_bind;
	case 'F':
		return &config.far_bind;
	case 'S':
		return &config.far_netns;
	case 'k':
		return &config.key;
	}
	return NULL;
}

struct choice {
	const char *only;
	bool once, list, far_mem;
	int far_fd; /* of the process that is the far side; -1 */
};

/* False: wrong usage, or help was asked for. */
static bool option_take(int c, struct choice *choice)
{
	const char *longer;

	switch (c) {
	case 'm':
		return place_parse(optarg, &config.mem);
	case 'M':
		choice->far_mem = true;
		return place_parse(optarg, &config.far_mem);
	case 'P':
		choice->far_fd = atoi(optarg);
		return true;
	case 'p':
		config.processes = atoi(optarg);
		return true;
	case '6':
		config.family = atoi(optarg);
		return true;
	case '1':
		setenv("TCPX_ONE_COPY", "1", 1);
		return true;
	case 'i':
		return setenv("TCPX_PLUGIN", optarg, 1) == 0;
	case 'l':
		config.light = true;
		return true;
	case 's': /* light but in the long form of the suites */
		longer = getenv("TEST_LONG");
		config.light |= !longer || strcmp(longer, "1") != 0;
		return true;
	case 'o':
		return choice->once = true;
	case 'c':
		choice->only = optarg;
		return true;
	case 'L':
		return choice->list = true;
	}
	return false;
}

/* The plugin of this run, in the environment of both sides; of the caller's wishes none is changed.
 * False: nobody named one. */
static bool plugin_take(const char *tested)
{
	if (tested && *tested)
		setenv("TCPX_PLUGIN", tested, 0);
	setenv("TCPX_PLUGIN_HOST", uses_gpu() ? "0" : "1", 0);
	setenv("TCPX_MESSAGE_TIMEOUT_MS", "1000", 0);
	setenv("TCPX_GPUDIRECT_SAME_HOST", "1", 0);
	setenv("NCCL_DYNAMIC_CHUNK_SIZE", "524288", 0);
	return getenv("TCPX_PLUGIN") != NULL;
}

static int run_all(const struct choice *choice)
{
	struct check_case gpu = {"gpu_look", look};
	struct check_result result = {0};

	if (uses_gpu() && !choice->list) {
		check_case_run(&gpu, NULL, &result);
		if (!result.passed)
			return check_end(&result);
	}
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
		for (const struct case_row *row = tables[t]; row->name; row++) {
			struct check_case one = {row->name, run_case};

			if (!wanted(row, choice->only, choice->once))
				continue;
			if (choice->list)
				puts(row->name);
			else
				check_case_run(&one, (void *)row, &result);
		}
	}
	return choice->list ? 0 : check_end(&result);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{"transport", 1, NULL, 't'}, {"mem", 1, NULL, 'm'},
		{"plugin", 1, NULL, 'i'},    {"far-mem", 1, NULL, 'M'},
		{"filters", 1, NULL, 'f'},   {"processes", 1, NULL, 'p'},
		{"family", 1, NULL, '6'},    {"near", 1, NULL, 'N'},
		{"far", 1, NULL, 'F'},	     {"far-netns", 1, NULL, 'S'},
		{"key", 1, NULL, 'k'},	     {"light", 0, NULL, 'l'},
		{"short", 0, NULL, 's'},     {"one-copy", 0, NULL, '1'},
		{"once", 0, NULL, 'o'},	     {"case", 1, NULL, 'c'},
		{"list", 0, NULL, 'L'},	     {"far-process", 1, NULL, 'P'}, /* from near.c */
		{"help", 0, NULL, 'h'},	     {0},
	};
	struct choice choice = {.far_fd = -1};
	int c;

	program = argv;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (text_of(c)) {
			*text_of(c) = optarg;
		} else if (!option_take(c, &choice)) {
			usage(c == 'h' ? stdout : stderr);
			return c == 'h' ? 0 : 2;
		}
	}
	filter_choose(config.filters);
	if (!choice.far_mem)
		config.far_mem = config.mem;
	if (conform_plugin() && !plugin_take(getenv("TCPX_TEST_PLUGIN"))) {
		fputs("conform: skipped: TCPX_TEST_PLUGIN names no plugin\n", stderr);
		return CHECK_SKIP;
	}
	if (choice.far_fd >= 0)
		far_process(choice.far_fd);
	return run_all(&choice);
}
