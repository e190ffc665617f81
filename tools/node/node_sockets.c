/* SPDX-License-Identifier: Apache-2.0 */
/* Warns of too many sockets of a TCPX plugin per NIC: more than a few are slower. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_output.h"
#include "node.h"

#define NICS_MAX 64
#define GUIDANCE 8 /* most connections of a 200 Gbit/s NIC that the vendor advises */

struct nic {
	char name[64];
	uint32_t channels;
};

/* A variable that the plugin reads; 1 if unset. */
static unsigned factor(const char *name)
{
	const char *text = getenv(name);
	unsigned long value = text ? strtoul(text, NULL, 10) : 0;

	return value ? (unsigned)value : 1;
}

static void count_link(const struct node_gpu *gpu, const struct node_link *link, struct nic *nics)
{
	tcpx_channel_info info = {.sz = sizeof(info)};

	for (uint32_t k = 0; tcpx_channel_query(gpu->session, link->peer, k, &info) == TCPX_OK; k++)
		for (uint32_t i = 0; info.messages && i < NICS_MAX; i++) {
			if (nics[i].name[0] && strcmp(nics[i].name, info.nic) != 0)
				continue;
			snprintf(nics[i].name, sizeof(nics[i].name), "%s", info.nic);
			nics[i].channels++;
			break;
		}
}

void node_sockets_warn(const struct node *node)
{
	unsigned sockets = factor("NCCL_NSOCKS_PERTHREAD") * factor("NCCL_SOCKET_NTHREADS");
	struct nic nics[NICS_MAX] = {{{0}}}, *most = &nics[0];

	for (uint32_t i = 0; i < node->ngpus; i++)
		for (uint32_t k = 0; k < node->gpus[i].nlinks; k++)
			count_link(&node->gpus[i], &node->gpus[i].links[k], nics);
	for (uint32_t i = 1; i < NICS_MAX; i++)
		if (nics[i].channels > most->channels)
			most = &nics[i];
	/* An emulated NIC, as in the demo, has no link rate that the advice could refer to. */
	if (most->channels * sockets > GUIDANCE && if_nametoindex(most->name))
		cli_error("NIC %s carries %u sockets (%u channels of %u); %d are advised, so fewer "
			  "--channels may be faster",
			  most->name, most->channels * sockets, most->channels, sockets, GUIDANCE);
}
