/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx mesh: measures every pair of GPUs of different ranks, as a matrix of rates. */
#include <stdlib.h>

#include "cli_output.h"
#include "commands.h"
#include "node.h"

static tcpx_status mesh_cmd_work(struct node *node, int *out_rc)
{
	tcpx_status status = node_counted(node, node_mesh);

	if (status == TCPX_OK)
		status = node_mesh_result(node, out_rc);
	free(node->cells);
	node->cells = NULL;
	return status;
}

static int mesh_command(const struct cli_command *command, int argc, char **argv)
{
	static struct node_options o;
	static struct node node;
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	o.peers = "all";
	node.shared_area = true;
	if (rc == CLI_GO)
		rc = node_start(command, &node, &o, argc, argv, first);
	return rc == CLI_GO ? node_drive(&node, mesh_cmd_work) : rc;
}

const struct cli_command command_mesh = {
	.name = "mesh",
	.args = "[options] [HOST[:PORT-BASE]]",
	.summary = "Measures every link between GPUs of all ranks, as a matrix",
	.options = node_option_table,
	.noptions = NODE_OPTION_COUNT - NODE_OPTIONS_OF_NODE,
	.max_args = 1,
	.run = mesh_command,
};
