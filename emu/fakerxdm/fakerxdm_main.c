/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for RxDM as a program: serves until SIGTERM or SIGINT. */
#include "fakerxdm.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: fakerxdm --prefix DIR [--topo TABLE] [--stats FILE] [--cuda LIBRARY]\n"
	"                [--pool BYTES] [--max-rules N] [--slow MS] [--mode MODE]\n"
	"TABLE: NAME=IP:PCI:BUS[,BUS...][;...]; default: the preset of A3 hosts on 127.0.1.1 ...\n"
	"MODE:  ok, refuse, silent, hang-up, garbage\n"
	"Prints \"ready\" when it listens. Ends when the last registered application leaves.\n";

static int parse_mode(const char *text, enum fakerxdm_mode *out)
{
	static const char *const modes[] = {"ok", "refuse", "silent", "hang-up", "garbage"};

	for (unsigned i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		if (!strcmp(text, modes[i])) {
			*out = (enum fakerxdm_mode)i;
			return 0;
		}
	}
	return -1;
}

static int parse(int argc, char **argv, struct fakerxdm_opts *out)
{
	static const struct option options[] = {
		{"prefix", 1, NULL, 'p'}, {"topo", 1, NULL, 't'}, {"stats", 1, NULL, 's'},
		{"cuda", 1, NULL, 'c'},	  {"pool", 1, NULL, 'b'}, {"max-rules", 1, NULL, 'r'},
		{"slow", 1, NULL, 'l'},	  {"mode", 1, NULL, 'm'}, {NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (option) {
		case 'p':
			out->prefix = optarg;
			break;
		case 't':
			out->topo = optarg;
			break;
		case 's':
			out->stats = optarg;
			break;
		case 'c':
			out->cuda = optarg;
			break;
		case 'b':
			out->pool_bytes = strtoull(optarg, NULL, 0);
			break;
		case 'r':
			out->max_rules = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 'l':
			out->slow_ms = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 'm':
			if (parse_mode(optarg, &out->mode))
				return -1;
			break;
		default:
			return -1;
		}
	}
	return out->prefix && optind == argc ? 0 : -1;
}

static void end(void *arg)
{
	(void)arg;
	kill(getpid(), SIGTERM);
}

int main(int argc, char **argv)
{
	struct fakerxdm_opts opts = {.last_left = end};
	struct fakerxdm *rxdm;
	sigset_t ends;
	int signal;

	if (parse(argc, argv, &opts)) {
		fputs(usage, stderr);
		return 2;
	}
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	if (fakerxdm_start(&opts, &rxdm))
		return 1;
	puts("ready");
	fflush(stdout);
	sigwait(&ends, &signal);
	fakerxdm_stop(rxdm);
	return 0;
}
