/* SPDX-License-Identifier: Apache-2.0 */
/* The options of node and mesh: the first is for mesh only, the last ones are for node only. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "node.h"
#include "perf_host.h"

#define AT(field) offsetof(struct node_options, field)

const struct cli_option node_option_table[] = {
	{"repeat",
	 "N",
	 {CLI_COUNT, 1, 1000},
	 AT(repeat),
	 "3",
	 0,
	 "measurements of each link",
	 .group = "Measurement"},
	{"gpus", "LIST", CLI_RULE_TEXT, AT(gpus), "0-7", CLI_ENV(LOCAL_DEVICE),
	 "GPUs of this process, \"0-3,6\"", .group = "Devices"},
	{"nics", "LIST", CLI_RULE_TEXT, AT(nics), "auto", 0,
	 "NICs, for equal blocks of GPUs; auto: owners"},
	{"mem",
	 "KIND",
	 {CLI_CHOICE, 0, 0, NODE_MEMS},
	 AT(mem),
	 "auto",
	 0,
	 "host, cuda; auto: cuda where there is a driver"},
	{"op",
	 "OP",
	 {CLI_CHOICE, 0, 0, NODE_OPS},
	 AT(op),
	 "write",
	 0,
	 "write, read or send",
	 .group = "Transfers"},
	{"size",
	 "BYTES",
	 {CLI_BYTES, 1, 1ull << 30},
	 AT(size),
	 "4M",
	 CLI_ENV(PERF_SIZE),
	 "bytes of a transfer"},
	{"iters",
	 "N",
	 {CLI_COUNT, 1, 1000000000},
	 AT(iters),
	 "20",
	 CLI_ENV(PERF_ITERS),
	 "transfers of each link and direction",
	 .letter = 'n'},
	{"memory",
	 "BYTES",
	 {CLI_BYTES, 4096, 1ull << 40},
	 AT(memory),
	 NULL,
	 0,
	 "per GPU and direction (GPUs 256M, host 32M)"},
	{"bind", "ADDR|IF[,...]", CLI_RULE_TEXT, AT(bind), NULL, CLI_ENV(BIND),
	 "addresses to listen on (default: loopback)", .group = "Path"},
	{"port-base",
	 "P",
	 {CLI_COUNT, 2, 65000},
	 AT(port_base),
	 "20000",
	 CLI_ENV(PORT_BASE),
	 "GPU N listens at P + N, control at P - 1",
	 .letter = 'p'},
	{"advertise", "HOST[:PORT]", CLI_RULE_TEXT, AT(advertise), NULL, CLI_ENV(ADVERTISE),
	 "told to peers; port: that of --port-base"},
	{"transport",
	 "KIND",
	 {CLI_CHOICE, 0, 0, NODE_TRANSPORTS},
	 AT(transport),
	 "auto",
	 0,
	 "auto, tcp, local (same host), plugin, gpudirect"},
	{"channels",
	 "N",
	 {CLI_COUNT, 1, 1024},
	 AT(channels),
	 "8",
	 CLI_ENV(CHANNELS),
	 "per GPU, divided over its peers: 1 to 63 each",
	 .letter = 'P'},
	{"no-local", NULL, CLI_RULE_FLAG, AT(no_local), NULL, 0,
	 "never use the same-host transport"},
	{"plugin", "FILE", CLI_RULE_TEXT, AT(plugin.file), "default", CLI_ENV(PLUGIN),
	 "ncclNet plugin; default: where TCPX's is"},
	{"unpack",
	 "HOW",
	 {CLI_CHOICE, 0, 0, NODE_UNPACKS},
	 AT(plugin.unpack),
	 NULL,
	 0,
	 "gpudirect: kernel, d2d, host, none, host-recv"},
	{"launcher", "NAME", CLI_RULE_TEXT, AT(launcher), "auto", 0,
	 "who started the ranks; tcpx-launch(7)", .group = "Ranks"},
	{"rendezvous", "HOST:PORT|FILE", CLI_RULE_TEXT, AT(rendezvous), NULL, CLI_ENV(RENDEZVOUS),
	 "where ranks meet (default: the launcher says)"},
	{"hostfile", "FILE", CLI_RULE_TEXT, AT(hostfile), NULL, CLI_ENV(HOSTFILE),
	 "addresses of hosts; our line is our rank"},
	{"local-rank", NULL, CLI_RULE_FLAG, AT(local_rank), NULL, 0,
	 "one process per GPU, by the local rank"},
	{"timeout",
	 "SECONDS",
	 {CLI_SECONDS, 1, 86400},
	 AT(timeout),
	 "60",
	 0,
	 "time limit of each stage"},
	{"key", "FILE", CLI_RULE_TEXT, AT(key), NULL, 0, "shared key file (default: TCPX_KEY_FILE)",
	 .group = "Trust"},
	{"insecure", NULL, CLI_RULE_FLAG, AT(insecure), NULL, 0,
	 "go beyond loopback without a key"},
	{"json", "FILE", CLI_RULE_TEXT, AT(json), NULL, 0, "results of all ranks as JSON",
	 .letter = 'J', .implied = "-", .group = "Output"},
	{"quiet", NULL, CLI_RULE_FLAG, AT(quiet), NULL, 0, "do not print the stages"},
	{"verbose", NULL, CLI_RULE_FLAG, AT(plugin.verbose), NULL, 0,
	 "gpudirect: show the environment of the plugin"},
	{"peers", "WHO", CLI_RULE_TEXT, AT(peers), "same", 0,
	 "same (number), all, or a file of RANK:GPU pairs", .group = "Pairs and checks"},
	{"check",
	 "WHAT",
	 {CLI_CHOICE, 0, 0, NODE_CHECKS},
	 AT(check),
	 NULL,
	 0,
	 "smoke: one GPU; devmem: 4 channels on a NIC"},
	{"ceiling", NULL, CLI_RULE_FLAG, AT(ceiling), NULL, 0,
	 "measure as many plain sockets as well"},
	{"perf-lines", NULL, CLI_RULE_FLAG, AT(perf_lines), NULL, CLI_ENV(PERF),
	 "also lines '[PERF] key=value', for old scripts"},
};
_Static_assert(sizeof(node_option_table) / sizeof(node_option_table[0]) == NODE_OPTION_COUNT,
	       "NODE_OPTION_COUNT");

tcpx_status node_advertise(const struct node_options *o, int offset, char out[NODE_ADVERTISE_MAX])
{
	const char *rest = o->advertise ? o->advertise : "";
	size_t at = 0;

	*out = '\0';
	while (*rest) {
		size_t skip = strspn(rest, " \t"), len = strcspn(rest, ",");
		char text[PERF_ADDRESS_TEXT], host[PERF_HOST_MAX];
		unsigned port = 0;
		const char *why;

		snprintf(text, sizeof(text), "%.*s", len > skip ? (int)(len - skip) : 0,
			 rest + skip);
		why = perf_host_split(text, host, &port);
		if (why)
			return error_set(TCPX_ERR_INVALID, 0, "advertise '%.80s': %s", text, why);
		if (port && ((int)port + offset < 1 || (int)port + offset > 65535))
			return error_set(TCPX_ERR_INVALID, 0,
					 "advertise '%.80s': port %d of GPU %d", text,
					 (int)port + offset, offset);
		at += (size_t)snprintf(out + at, NODE_ADVERTISE_MAX - at,
				       strchr(host, ':') ? "%s[%s]" : "%s%s", at ? "," : "", host);
		if (port && at < NODE_ADVERTISE_MAX)
			at += (size_t)snprintf(out + at, NODE_ADVERTISE_MAX - at, ":%d",
					       (int)port + offset);
		if (at >= NODE_ADVERTISE_MAX)
			return error_set(TCPX_ERR_LIMIT, 0, "advertise: more than %d bytes",
					 NODE_ADVERTISE_MAX - 1);
		rest += len + (rest[len] == ',');
	}
	return TCPX_OK;
}
