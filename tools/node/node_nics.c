/* SPDX-License-Identifier: Apache-2.0 */
/* Each GPU's NIC: its owner as the machine's topology says, or as the user lists them. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "node.h"
#include "topo/pairing.h"
#include "topo/rxdm_client.h"

#define RXDM_NS (2 * CLOCK_S_NS)
#define PREFIX "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"

/* Is the word in the comma list? */
static bool listed(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
		if (!strncmp(at, word, len) && (at[len] == ',' || !at[len]))
			return true;
	return false;
}

/* Only what the user lets the sessions bind to: a NIC may lead nowhere. */
static tcpx_status by_owner(struct node *node)
{
	struct topo_rxdm_asker asker = {.prefix = getenv(PREFIX),
					.deadline_ns = clock_now_ns() + RXDM_NS};
	struct topo_pairs pairs;
	struct topo *topo;
	tcpx_status status = topo_scan(config_text(CONFIG_SYSFS), &topo);

	if (status != TCPX_OK)
		return status;
	topo_pairs_build(topo, asker.prefix ? topo_rxdm_ask : NULL, &asker, &pairs);
	for (uint32_t i = 0; i < node->ngpus; i++) {
		struct node_gpu *gpu = &node->gpus[i];
		const struct topo_owner *owner;
		pci_addr pci;

		if (pci_parse(gpu->pci, &pci) != 0)
			continue;
		owner = topo_owner_of(&pairs, pci);
		if (owner && owner->nic != PCI_NONE && listed(node->options->bind, owner->nic_name))
			snprintf(gpu->nic, sizeof(gpu->nic), "%s", owner->nic_name);
	}
	topo_free(topo);
	return TCPX_OK;
}

/* In equal blocks: of 8 GPUs and 4 NICs two each. */
static tcpx_status by_list(struct node *node, const char *list)
{
	const char *names[NODE_GPUS_MAX];
	size_t lens[NODE_GPUS_MAX];
	uint32_t count = 0;

	for (const char *at = list; *at; at += *at == ',') {
		size_t len = strcspn(at, ",");

		if (!len || len >= sizeof(node->gpus[0].nic) || count == NODE_GPUS_MAX)
			return error_set(TCPX_ERR_INVALID, 0, "--nics '%s' is no list of NICs",
					 list);
		names[count] = at;
		lens[count++] = len;
		at += len;
	}
	for (uint32_t i = 0; i < node->ngpus; i++) {
		uint32_t nic = i * count / node->ngpus;

		snprintf(node->gpus[i].nic, sizeof(node->gpus[i].nic), "%.*s", (int)lens[nic],
			 names[nic]);
		if (node->options->transport < NODE_PLUGIN && !if_nametoindex(node->gpus[i].nic))
			return error_set(TCPX_ERR_NOT_FOUND, 0, "--nics: this host has no %s",
					 node->gpus[i].nic);
	}
	return TCPX_OK;
}

/* For the table; what is not known stays so. */
static void find_nodes(struct node *node)
{
	struct topo *topo;

	if (topo_scan(config_text(CONFIG_SYSFS), &topo) != TCPX_OK)
		topo = NULL;
	for (uint32_t i = 0; i < node->ngpus; i++) {
		struct node_gpu *gpu = &node->gpus[i];
		const struct topo_nic *nic = topo ? topo_nic_named(topo, gpu->nic) : NULL;
		const struct topo_gpu *it = NULL;
		pci_addr pci;

		if (topo && !pci_parse(gpu->pci, &pci))
			it = topo_gpu_at(topo, pci);
		gpu->numa = it ? it->place.numa : TOPO_NUMA_UNKNOWN;
		gpu->nic_numa = nic ? nic->place.numa : TOPO_NUMA_UNKNOWN;
	}
	topo_free(topo);
}

tcpx_status node_nics_assign(struct node *node)
{
	const char *nics = node->options->nics;
	tcpx_status status = TCPX_OK;

	if (nics && *nics && strcmp(nics, "auto") != 0)
		status = by_list(node, nics);
	/* A plugin's device for a GPU is the library's to find. */
	else if (node->options->transport < NODE_PLUGIN && node->options->bind)
		status = by_owner(node);
	if (status == TCPX_OK)
		find_nodes(node);
	return status;
}
