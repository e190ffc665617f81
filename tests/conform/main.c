/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the conformance cases in one configuration. */
#include <getopt.h>

#include "conform.h"
#include "sys/crypto.h"

struct config config = {.transport = "tcp", .mem = "host", .processes = 1, .family = 4};

static const struct case_row *const tables[] = {
	cases_connect,	cases_region,	  cases_bytes,	cases_list,    cases_send, cases_notify,
	cases_patience, cases_end,	  cases_reject, cases_handle,  cases_loop, cases_life,
	cases_threads,	cases_deregister, cases_lease,	cases_keyless,
};

static void run_case(void *arg)
{
	const struct case_row *row = arg;
	struct env env = {.fd = -1};

	if (!(row->flags & CASE_BARE))
		env_open(&env);
	row->run(&env);
	env_close(&env);
}

static int wanted(const struct case_row *row, const char *only, bool once)
{
	if (only && !strstr(row->name, only))
		return 0;
	if ((row->flags & CASE_ONCE) && !once)
		return 0;
	if ((row->flags & CASE_HEAVY) && config.light)
		return 0;
	if ((row->flags & CASE_KEYLESS) && sys_crypto_available())
		return 0;
	return !(row->flags & CASE_TWO) || config.processes == 2;
}

static void usage(FILE *out)
{
	fputs("conform [--transport tcp|local] [--mem host|slow] [--filters SPEC]\n"
	      "        [--processes 1|2] [--family 4|6] [--one-copy] [--light | --short] [--once]\n"
	      "        [--near ADDR[,ADDR] --far ADDR[,ADDR] --far-netns NAME --key FILE]\n"
	      "        [--case TEXT] [--list]\n"
	      "--once runs the cases that do not depend on the configuration, too.\n",
	      out);
}

/* The text an option sets, or NULL. */
static const char **text_of(int c)
{
	switch (c) {
	case 't':
		return &config.transport;
	case 'm':
		return &config.mem;
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

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{"transport", 1, NULL, 't'},
		{"mem", 1, NULL, 'm'},
		{"filters", 1, NULL, 'f'},
		{"processes", 1, NULL, 'p'},
		{"family", 1, NULL, '6'},
		{"near", 1, NULL, 'N'},
		{"far", 1, NULL, 'F'},
		{"far-netns", 1, NULL, 'S'},
		{"key", 1, NULL, 'k'},
		{"light", 0, NULL, 'l'},
		{"short", 0, NULL, 's'},
		{"one-copy", 0, NULL, '1'},
		{"once", 0, NULL, 'o'},
		{"case", 1, NULL, 'c'},
		{"list", 0, NULL, 'L'},
		{"help", 0, NULL, 'h'},
		{0},
	};
	struct check_result result = {0};
	const char *only = NULL, *longer;
	bool once = false, list = false;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (text_of(c)) {
			*text_of(c) = optarg;
			continue;
		}
		switch (c) {
		case 'p':
			config.processes = atoi(optarg);
			break;
		case '6':
			config.family = atoi(optarg);
			break;
		case '1':
			setenv("TCPX_ONE_COPY", "1", 1);
			break;
		case 'l':
			config.light = true;
			break;
		case 's': /* light but in the long form of the suites */
			longer = getenv("TEST_LONG");
			config.light |= !longer || strcmp(longer, "1") != 0;
			break;
		case 'o':
			once = true;
			break;
		case 'c':
			only = optarg;
			break;
		case 'L':
			list = true;
			break;
		default:
			usage(c == 'h' ? stdout : stderr);
			return c == 'h' ? 0 : 2;
		}
	}
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
		for (const struct case_row *row = tables[t]; row->name; row++) {
			struct check_case one = {row->name, run_case};

			if (!wanted(row, only, once))
				continue;
			if (list)
				puts(row->name);
			else
				check_case_run(&one, (void *)row, &result);
		}
	}
	return list ? 0 : check_end(&result);
}
