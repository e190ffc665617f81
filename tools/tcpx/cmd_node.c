/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx node: transfers between all GPUs of hosts, with one process per host. */
#include <stdio.h>

#include "cli_output.h"
#include "commands.h"
#include "node.h"

static tcpx_status node_cmd_work(struct node *node, int *out_rc)
{
	tcpx_status status = node_counted(node, node_run);

	if (status == TCPX_OK && node->options->ceiling)
		status = node_ceiling(node);
	if (status == TCPX_OK)
		*out_rc = node_result(node);
	return status;
}

/* --check: the validations of the predecessor, with one GPU, and for devmem with four channels
 * on one NIC. */
static int set_check(const struct cli_command *command, struct node_options *o, struct node *node)
{
	if (!cli_given(command, "check"))
		return CLI_GO;
	if (o->check == NODE_CHECK_DEVMEM && o->transport != NODE_GPUDIRECT)
		return cli_usage("--check devmem is for --transport gpudirect");
	if (!node_compares(node))
		return cli_usage("--check compares received bytes, which unpack 'none' (--unpack, "
				 "TCPX_UNPACK_IMPL) drops");
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

	if (!cli_given(command, "check"))
		return rc;
	printf("%s %s\n", rc == CLI_OK ? "PASS" : "FAIL",
	       cli_choice_text(NODE_CHECKS, o->check, what, sizeof(what)));
	return rc == CLI_OK ? CLI_OK : CLI_FAILED;
}

static int node_command(const struct cli_command *command, int argc, char **argv)
{
	static struct node_options o;
	static struct node node;
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc == CLI_GO)
		rc = node_start(command, &node, &o, argc, argv, first);
	if (rc == CLI_GO)
		rc = set_check(command, &o, &node);
	return rc == CLI_GO ? say_check(command, &o, node_drive(&node, node_cmd_work)) : rc;
}

const struct cli_command command_node = {
	.name = "node",
	.args = "[options] [HOST[:PORT-BASE]]",
	.summary = "Moves memory between all GPUs of hosts, one process each",
	.options = node_option_table + 1, /* without mesh's */
	.noptions = NODE_OPTION_COUNT - 1,
	.max_args = 1,
	.run = node_command,
};
