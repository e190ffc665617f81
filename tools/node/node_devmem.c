/* SPDX-License-Identifier: Apache-2.0 */
/* gpudirect: checks by the packet counters of each NIC that bytes arrived in GPU memory. */
#include <string.h>

#include "base/error.h"
#include "cli_output.h"
#include "node.h"

/* Messages that a GPU received through a NIC; NULL: through any NIC. */
static uint64_t messages_of(const struct node_gpu *gpu, const char *nic)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < gpu->ncarriers; i++)
		if (!nic || !strcmp(nic, gpu->carriers[i].nic))
			sum += gpu->carriers[i].messages;
	return sum;
}

static tcpx_status not_steered(const struct node_gpu *gpu, const char *nic, uint64_t messages)
{
	(void)error_set(TCPX_ERR_UNSUPPORTED, 0,
			"no devmem data: %llu messages came to GPU %u through NIC %s, and its "
			"rx_devmem_pkts did not rise",
			(unsigned long long)messages, gpu->number, nic);
	return error_next("see which NIC is the GPU's: tcpx doctor --nic %s, tcpx topo", nic);
}

static tcpx_status not_counted(const struct node_gpu *gpu, const char *nic)
{
	(void)error_set(
		TCPX_ERR_UNSUPPORTED, 0,
		"--check devmem: rx_devmem_pkts of NIC %s is not available, so nothing shows "
		"that packets came into memory of GPU %u",
		nic, gpu->number);
	return error_next("its driver must count it ('ethtool -S %s' lists what it counts), or "
			  "TCPX_DEVMEM_STATS name a file that has it",
			  nic);
}

/* Fails if a NIC received messages without counting packets into GPU memory. */
static tcpx_status judge_gpu(const struct node *node, const struct node_gpu *gpu)
{
	const struct cli_devmem *devmem = &node->devmem;
	bool must = node->options->check == NODE_CHECK_DEVMEM;

	if (gpu->came && !messages_of(gpu, NULL)) {
		(void)error_set(TCPX_ERR_UNSUPPORTED, 0,
				"no devmem data: what came to GPU %u came over tcp", gpu->number);
		return error_next("host memory, and pieces up to TCPX_MESSAGE_ABOVE, do: see --mem "
				  "and --size");
	}
	if (!must && !strcmp(cli_plugin_unpack(), CLI_HOST_RECV))
		return TCPX_OK; /* host-recv receives into host memory on purpose */
	for (unsigned i = 0; i < devmem->count; i++) {
		uint64_t messages = messages_of(gpu, devmem->nics[i].name);

		if (!messages || (devmem->nics[i].known && devmem->nics[i].rise))
			continue;
		if (devmem->nics[i].known)
			return not_steered(gpu, devmem->nics[i].name, messages);
		if (must)
			return not_counted(gpu, devmem->nics[i].name);
	}
	return TCPX_OK;
}

tcpx_status node_counted(struct node *node, tcpx_status (*run)(struct node *))
{
	const char *nics = node->options->nics;
	bool listed = strcmp(nics, "auto") && strcmp(nics, "all");
	char text[512];
	tcpx_status status;

	if (node->options->transport != NODE_GPUDIRECT)
		return run(node);
	if (node->say)
		node_sockets_warn(node);
	cli_devmem_start(&node->devmem, &node->options->plugin);
	status = run(node);
	/* Adds a hint about GPU and NIC pairs to a failure, which names the channel. */
	if (cli_devmem_end(&node->devmem, text, sizeof(text)) == CLI_DEVMEM_NONE &&
	    status != TCPX_OK && strcmp(cli_plugin_unpack(), CLI_HOST_RECV) != 0)
		cli_error("no devmem data: rx_devmem_pkts %s; see which NIC is the GPU's: tcpx "
			  "doctor%s%s, tcpx topo",
			  text, listed ? " --nic " : "", listed ? nics : "");
	for (uint32_t i = 0; i < node->ngpus && status == TCPX_OK; i++)
		status = judge_gpu(node, &node->gpus[i]);
	return status;
}
