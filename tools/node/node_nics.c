/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC of each GPU: by the topology of the machine, or as --nics lists them. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "node.h"
#include "sys/addr.h"
#include "sys/iface.h"
#include "topo/pairing.h"
#include "topo/rxdm_client.h"

#define BOUND_MAX 64
#define RXDM_NS (2 * CLOCK_S_NS)
#define PREFIX "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"

/* Whether the word is in the comma list. */
static bool node_nics_listed(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
		if (!strncmp(at, word, len) && (at[len] == ',' || !at[len]))
			return true;
	return false;
}

/* Whether a bind list covers every address of the interface. */
static bool covers(const char *bind, const char *nic)
{
	struct sockaddr_storage all[BOUND_MAX], own[2];
	unsigned nall, nown, found = 0;

	if (node_nics_listed(bind, nic))
		return true;
	if (sys_iface_expand(nic, own, 2, &nown) != TCPX_OK ||
	    sys_iface_expand(bind, all, BOUND_MAX, &nall) != TCPX_OK)
		return false;
	for (unsigned i = 0; i < nown; i++)
		for (unsigned k = 0; k < nall; k++)
			found += (unsigned)sys_addr_same_host(&own[i], &all[k]);
	return found == nown;
}

/* Only NICs that --bind allows are used, because others may have no route to the peer. */
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
		if (owner && owner->nic != PCI_NONE && covers(node->options->bind, owner->nic_name))
			snprintf(gpu->nic, sizeof(gpu->nic), "%s", owner->nic_name);
	}
	topo_free(topo);
	return TCPX_OK;
}

/* The n-th name of a comma list, from 0. */
static const char *name_at(const char *list, uint32_t n)
{
	while (n--)
		list += strcspn(list, ",") + 1;
	return list;
}

/* The number of names in the list; 0 with an error if one cannot be the name of a NIC. */
static tcpx_status count_names(const struct node *node, const char *list, uint32_t *out_count)
{
	char name[IF_NAMESIZE];

	*out_count = 0;
	for (const char *at = list;; at++) {
		size_t len = strcspn(at, ",");

		if (!len)
			return error_set(TCPX_ERR_INVALID, 0, "--nics '%s' is not a list of NICs",
					 list);
		snprintf(name, sizeof(name), "%.*s", (int)len, at);
		if (node->options->transport < NODE_PLUGIN &&
		    (len >= sizeof(name) || !if_nametoindex(name)))
			return error_set(TCPX_ERR_NOT_FOUND, 0, "--nics: this host has no %.*s",
					 (int)len, at);
		++*out_count;
		at += len;
		if (!*at)
			return TCPX_OK;
	}
}

/* Assigns NICs in equal blocks: with 8 GPUs and 4 NICs two GPUs per NIC, with 2 GPUs and 4 NICs
 * two NICs per GPU. */
static tcpx_status by_list(struct node *node, const char *list)
{
	uint32_t count;
	tcpx_status status = count_names(node, list, &count);

	for (uint32_t i = 0; i < node->ngpus && status == TCPX_OK; i++) {
		struct node_gpu *gpu = &node->gpus[i];
		uint32_t first = gpu->listed * count / node->listed;
		uint32_t end = (gpu->listed + 1) * count / node->listed;
		const char *from = name_at(list, first), *last;

		last = name_at(list, end > first ? end - 1 : first);
		if (snprintf(gpu->nic, sizeof(gpu->nic), "%.*s",
			     (int)(last - from + strcspn(last, ",")),
			     from) >= (int)sizeof(gpu->nic))
			return error_set(TCPX_ERR_LIMIT, 0,
					 "--nics: the names of GPU %u's are longer than %zu bytes",
					 gpu->number, sizeof(gpu->nic) - 1);
	}
	return status;
}

/* NUMA nodes for the table; unknown ones stay unknown. */
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
	/* For gpudirect the library finds the device of the plugin for each GPU. */
	else if (node->options->transport < NODE_PLUGIN && node->options->bind)
		status = by_owner(node);
	if (status == TCPX_OK)
		find_nodes(node);
	return status;
}
