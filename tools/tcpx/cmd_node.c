/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx node: all GPUs of a host in one process, against those of other hosts. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli_devmem.h"
#include "cli_output.h"
#include "commands.h"
#include "node.h"

/* None of the bytes that came were put into GPU memory by the NIC: what a wrong pair looks like. */
static bool no_devmem(struct node *node, const struct cli_devmem *devmem)
{
	return cli_devmem_end(devmem, node->devmem, sizeof(node->devmem)) == CLI_DEVMEM_NONE &&
	       strcmp(cli_plugin_unpack(), CLI_HOST_RECV) != 0;
}

static tcpx_status run_counted(struct node *node)
{
	const char *nics = node->options->nics;
	bool listed = strcmp(nics, "auto") && strcmp(nics, "all");
	struct cli_devmem devmem = {0};
	tcpx_status status;

	if (node->say)
		node_sockets_warn(node);
	cli_devmem_start(&devmem, &node->options->plugin);
	status = node_run(node);
	if (!no_devmem(node, &devmem))
		return status;
	if (status != TCPX_OK) { /* it says which channel */
		cli_error("no devmem data: rx_devmem_pkts %s; see which NIC is the GPU's: tcpx "
			  "doctor%s%s, tcpx topo",
			  node->devmem, listed ? " --nic " : "", listed ? nics : "");
		return status;
	}
	(void)error_set(TCPX_ERR_UNSUPPORTED, 0, "no devmem data: rx_devmem_pkts %s", node->devmem);
	return error_next("see which NIC is the GPU's: tcpx doctor, tcpx topo");
}

static tcpx_status work(struct node *node, int *out_rc)
{
	tcpx_status status =
		node->options->transport == NODE_GPUDIRECT ? run_counted(node) : node_run(node);

	if (status == TCPX_OK && node->options->ceiling)
		status = node_ceiling(node);
	if (status == TCPX_OK)
		*out_rc = node_result(node);
	return status;
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
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc == CLI_GO)
		rc = node_start(command, &node, &o, argc, argv, first);
	if (rc == CLI_GO)
		rc = set_check(command, &o, &node);
	return rc == CLI_GO ? say_check(command, &o, node_drive(&node, work)) : rc;
}

const struct cli_command command_node = {
	.name = "node",
	.args = "[options] [HOST[:PORT-BASE]]",
	.summary = "Moves memory between all GPUs of hosts, one process each",
	.options = node_option_table + 1, /* without mesh's */
	.noptions = NODE_OPTION_COUNT - 1,
	.max_args = 1,
	.run = run,
};
