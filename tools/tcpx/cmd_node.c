/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx node: all GPUs of a host in one process, against those of other hosts. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "cli_devmem.h"
#include "cli_output.h"
#include "commands.h"
#include "node.h"
#include "node_control.h"
#include "perf_host.h"

#define AT(field) offsetof(struct node_options, field)
#define UNPACKS "kernel|d2d|host|none|host-recv"

static const struct cli_option options[] = {
	{"gpus", "LIST", CLI_RULE_TEXT, AT(gpus), "0-7", 0, "GPUs of this process, \"0-3,6\""},
	{"nics", "LIST", CLI_RULE_TEXT, AT(nics), "auto", 0,
	 "NICs in equal blocks of GPUs; auto: owners"},
	{"channels",
	 "N",
	 {CLI_COUNT, 1, 1024},
	 AT(channels),
	 "8",
	 0,
	 "per GPU, divided over its peers, one each at least"},
	{"transport",
	 "KIND",
	 {CLI_CHOICE, 0, 0, NODE_TRANSPORTS},
	 AT(transport),
	 "auto",
	 0,
	 "auto (same host: local), tcp, plugin, gpudirect"},
	{"mem",
	 "KIND",
	 {CLI_CHOICE, 0, 0, NODE_MEMS},
	 AT(mem),
	 "auto",
	 0,
	 "host, cuda; auto: cuda where there is a driver"},
	{"op", "OP", {CLI_CHOICE, 0, 0, NODE_OPS}, AT(op), "write", 0, "write, read or send"},
	{"size",
	 "BYTES",
	 {CLI_BYTES, 1, 1ull << 30},
	 AT(size),
	 "4M",
	 CLI_ENV(PERF_SIZE),
	 "of a transfer"},
	{"iters",
	 "N",
	 {CLI_COUNT, 1, 1000000000},
	 AT(iters),
	 "20",
	 CLI_ENV(PERF_ITERS),
	 "transfers of each link and direction"},
	{"memory",
	 "BYTES",
	 {CLI_BYTES, 4096, 1ull << 40},
	 AT(memory),
	 "256M",
	 0,
	 "of a GPU and direction, or another window"},
	{"peers", "WHO", CLI_RULE_TEXT, AT(peers), "same", 0,
	 "same (number), all, or a file of RANK:GPU pairs"},
	{"bind", "ADDR|IF[,...]", CLI_RULE_TEXT, AT(bind), NULL, 0,
	 "rails to listen on (default: loopback)"},
	{"port-base",
	 "P",
	 {CLI_COUNT, 2, 65000},
	 AT(port_base),
	 "20000",
	 CLI_ENV(PORT_BASE),
	 "GPU N listens at P + N, control at P - 1"},
	{"key", "FILE", CLI_RULE_TEXT, AT(key), NULL, 0,
	 "shared key file (default: TCPX_KEY_FILE)"},
	{"insecure", NULL, CLI_RULE_FLAG, AT(insecure), NULL, 0,
	 "go beyond loopback without a key"},
	{"no-local", NULL, CLI_RULE_FLAG, AT(no_local), NULL, 0,
	 "never use the same-host transport"},
	{"plugin", "FILE", CLI_RULE_TEXT, AT(plugin.file), "default", CLI_ENV(PLUGIN),
	 "ncclNet plugin; default: where TCPX's is"},
	{"unpack",
	 "HOW",
	 {CLI_CHOICE, 0, 0, UNPACKS},
	 AT(plugin.unpack),
	 NULL,
	 0,
	 "gpudirect: kernel, d2d, host, none, host-recv"},
	{"check",
	 "WHAT",
	 {CLI_CHOICE, 0, 0, NODE_CHECKS},
	 AT(check),
	 NULL,
	 0,
	 "smoke: one GPU; devmem: 4 channels on a NIC"},
	{"timeout",
	 "SECONDS",
	 {CLI_SECONDS, 1, 86400},
	 AT(timeout),
	 "60",
	 0,
	 "for each stage, then the run fails"},
	{"ceiling", NULL, CLI_RULE_FLAG, AT(ceiling), NULL, 0,
	 "measure plain sockets of the same number, too"},
	{"json", "FILE", CLI_RULE_TEXT, AT(json), NULL, 0, "results of all ranks; - is stdout"},
	{"perf-lines", NULL, CLI_RULE_FLAG, AT(perf_lines), NULL, CLI_ENV(PERF),
	 "the predecessor's [PERF] lines"},
	{"quiet", NULL, CLI_RULE_FLAG, AT(quiet), NULL, 0, "no lines of the stages"},
	{"verbose", NULL, CLI_RULE_FLAG, AT(plugin.verbose), NULL, 0,
	 "gpudirect: show the environment of the plugin"},
};

static void say_waiting(void *arg, const char *stage, const uint32_t *missing, uint32_t count)
{
	char text[256] = "";
	size_t len = 0;

	(void)arg;
	for (uint32_t i = 0; i < count && i < 16 && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u", i ? ", " : "",
					missing[i]);
	cli_error("stage '%s': waiting for rank%s %s%s", stage, count > 1 ? "s" : "", text,
		  count > 16 ? ", ..." : "");
}

static tcpx_status open_control(struct node *node, const char *host)
{
	const struct node_options *o = node->options;
	struct node_control_opts opts = {.rank = node->rank,
					 .size = node->size,
					 .job = node->job,
					 .host = host,
					 .bind = o->bind,
					 .key = o->key,
					 .insecure = o->insecure,
					 .port = (uint32_t)o->port_base - 1,
					 .timeout_ns = (int64_t)(o->timeout * 1e9),
					 .waits = say_waiting};

	return node_control_open(&opts, &node->control);
}

/* Bytes came, and none of them into GPU memory by the NIC: what a wrong pair looks like. */
static tcpx_status judge_devmem(struct node *node, const struct cli_devmem *devmem)
{
	char unpack[16];

	if (cli_devmem_end(devmem, node->devmem, sizeof(node->devmem)) != CLI_DEVMEM_NONE ||
	    !strcmp(cli_choice_text(UNPACKS, node->options->plugin.unpack, unpack, sizeof(unpack)),
		    "host-recv"))
		return TCPX_OK;
	(void)error_set(TCPX_ERR_UNSUPPORTED, 0, "no devmem data: rx_devmem_pkts %s", node->devmem);
	return error_next("see which NIC is the GPU's: tcpx doctor, tcpx topo");
}

/* From here on the other ranks hear of a failure. */
static int drive(struct node *node)
{
	struct cli_devmem devmem = {0};
	bool counts = node->options->transport == NODE_GPUDIRECT;
	tcpx_status status = node_setup(node);

	if (status == TCPX_OK && counts)
		cli_devmem_start(&devmem, &node->options->plugin);
	if (status == TCPX_OK)
		status = node_run(node);
	if (status == TCPX_OK && counts)
		status = judge_devmem(node, &devmem);
	if (status == TCPX_OK && node->options->ceiling)
		status = node_ceiling(node);
	if (status == TCPX_OK)
		return node_result(node);
	node_control_fail(node->control, tcpx_last_error()->what);
	return cli_fail(status, "the run failed");
}

static int run_node(struct node *node, const char *host)
{
	tcpx_status status = node_find_gpus(node);
	int rc;

	if (status == TCPX_OK)
		status = node_nics_assign(node);
	if (status != TCPX_OK)
		return cli_fail(status, "this rank cannot start");
	status = open_control(node, host);
	if (status != TCPX_OK)
		return cli_fail(status, "no control link");
	if (node->options->insecure)
		cli_error("INSECURE: whoever reaches the ports may connect");
	rc = drive(node);
	node_close(node);
	node_control_close(node->control);
	return rc;
}

/* The predecessor's validations: one GPU, and with devmem four channels on one NIC. */
static int set_check(const struct cli_command *command, struct node_options *o, struct node *node)
{
	if (!cli_given(command, "check"))
		return CLI_GO;
	if (o->check == NODE_CHECK_DEVMEM && o->transport != NODE_GPUDIRECT)
		return cli_usage("--check devmem is for --transport gpudirect");
	node->ngpus = 1;
	if (o->check == NODE_CHECK_DEVMEM)
		o->channels = 4;
	if (!cli_given(command, "iters"))
		o->iters = 4;
	return CLI_GO;
}

static int say_check(const struct cli_command *command, const struct node_options *o, int rc)
{
	char what[16];

	if (cli_given(command, "check"))
		printf("%s %s\n", rc == CLI_OK ? "PASS" : "FAIL",
		       cli_choice_text(NODE_CHECKS, o->check, what, sizeof(what)));
	return rc;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
	static struct node_options o;
	static struct node node;
	static char host[PERF_HOST_MAX];
	uint32_t numbers[NODE_GPUS_MAX];
	unsigned port = 0;
	const char *why;
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc != CLI_GO)
		return rc;
	if (node_gpus_parse(o.gpus, numbers, &node.ngpus) != TCPX_OK)
		return cli_usage("%s", tcpx_last_error()->what);
	for (uint32_t i = 0; i < node.ngpus; i++) {
		node.gpus[i].node = &node;
		node.gpus[i].index = i;
		node.gpus[i].number = numbers[i];
	}
	if (first < argc) {
		why = perf_host_split(argv[first], host, &port);
		if (why)
			return cli_usage("'%s': %s", argv[first], why);
		if (port)
			o.port_base = port;
	}
	rc = set_check(command, &o, &node);
	if (rc != CLI_GO)
		return rc;
	if (o.transport >= NODE_PLUGIN) {
		rc = cli_plugin_prepare(command, &o.plugin, o.transport == NODE_GPUDIRECT, -1, 0);
		if (rc != CLI_GO)
			return rc;
	}
	cli_say_unknown();
	node.options = &o;
	node.job = "node";
	node.size = 2;
	node.rank = first < argc;
	return say_check(command, &o, run_node(&node, *host ? host : NULL));
}

const struct cli_command command_node = {
	.name = "node",
	.args = "[options] [HOST[:PORT-BASE]]",
	.summary = "Moves memory between all GPUs of hosts, one process each",
	COMMAND_OPTIONS(options),
	.max_args = 1,
	.run = run,
};
