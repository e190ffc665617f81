/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up devices in the graph of a machine, computes distances, and compares two graphs. */
#include "topo/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

void topo_free(struct topo *topo)
{
	free(topo);
}

const struct topo_gpu *topo_gpu_at(const struct topo *topo, pci_addr pci)
{
	for (unsigned i = 0; i < topo->ngpus; i++)
		if (topo->gpus[i].place.pci == pci)
			return &topo->gpus[i];
	return NULL;
}

const struct topo_nic *topo_nic_at(const struct topo *topo, pci_addr pci)
{
	for (unsigned i = 0; i < topo->nnics; i++)
		if (topo->nics[i].place.pci == pci)
			return &topo->nics[i];
	return NULL;
}

const struct topo_nic *topo_nic_named(const struct topo *topo, const char *name)
{
	for (unsigned i = 0; i < topo->nnics; i++)
		if (!strcmp(topo->nics[i].name, name))
			return &topo->nics[i];
	return NULL;
}

tcpx_status topo_add_gpu(struct topo *topo, pci_addr pci)
{
	unsigned at = 0;

	if (pci == PCI_NONE)
		return error_set(TCPX_ERR_INVALID, 0, "a GPU without a PCI address");
	if (topo_gpu_at(topo, pci))
		return TCPX_OK;
	if (topo->ngpus == TOPO_GPUS_MAX)
		return error_set(TCPX_ERR_LIMIT, 0, "more than %d GPUs", TOPO_GPUS_MAX);
	while (at < topo->ngpus && topo->gpus[at].place.pci < pci)
		at++;
	memmove(&topo->gpus[at + 1], &topo->gpus[at], (topo->ngpus - at) * sizeof(*topo->gpus));
	topo->gpus[at] = (struct topo_gpu){.place = {.pci = pci, .numa = TOPO_NUMA_UNKNOWN}};
	topo->ngpus++;
	return TCPX_OK;
}

tcpx_status topo_add_nic(struct topo *topo, pci_addr pci, const char *name)
{
	struct topo_nic *nics = topo->nics;
	unsigned at = 0;

	if (pci == PCI_NONE)
		return error_set(TCPX_ERR_INVALID, 0, "the NIC %.16s has no PCI address", name);
	while (at < topo->nnics && nics[at].place.pci < pci)
		at++;
	if (at < topo->nnics && nics[at].place.pci == pci) {
		if (!nics[at].name[0])
			snprintf(nics[at].name, sizeof(nics[at].name), "%s", name);
		return TCPX_OK;
	}
	if (topo->nnics == TOPO_NICS_MAX)
		return error_set(TCPX_ERR_LIMIT, 0, "more than %d NICs", TOPO_NICS_MAX);
	memmove(&nics[at + 1], &nics[at], (topo->nnics - at) * sizeof(*nics));
	nics[at] = (struct topo_nic){.place = {.pci = pci, .numa = TOPO_NUMA_UNKNOWN}};
	snprintf(nics[at].name, sizeof(nics[at].name), "%s", name);
	topo->nnics++;
	return TCPX_OK;
}

/* Returns the id of the machine's only NUMA node, or TOPO_NUMA_UNKNOWN if it has several or
 * none. */
static int only_node(const struct topo *topo)
{
	return topo->nnodes == 1 ? topo->nodes[0].id : TOPO_NUMA_UNKNOWN;
}

const char *topo_node_cpus(const struct topo *topo, int node)
{
	if (node == TOPO_NUMA_UNKNOWN)
		node = only_node(topo);
	for (unsigned i = 0; i < topo->nnodes; i++)
		if (topo->nodes[i].id == node)
			return topo->nodes[i].cpus;
	return NULL;
}

/* Whether two nodes are the same. On a machine with only one node, an unknown node is that node.
 * Otherwise it is the same as no node, not even as another unknown one. */
static int same_node(const struct topo *topo, int a, int b)
{
	if (a == TOPO_NUMA_UNKNOWN)
		a = only_node(topo);
	if (b == TOPO_NUMA_UNKNOWN)
		b = only_node(topo);
	return a != TOPO_NUMA_UNKNOWN && a == b;
}

enum topo_distance topo_distance(const struct topo *topo, const struct topo_place *a,
				 const struct topo_place *b)
{
	unsigned common = 0;

	if (!a->located || !b->located)
		return TOPO_FAR;
	if (a->root != b->root)
		return same_node(topo, a->numa, b->numa) ? TOPO_NODE : TOPO_SYS;
	while (common < a->nbridges && common < b->nbridges &&
	       a->bridges[common] == b->bridges[common])
		common++;
	if (!common)
		return TOPO_PHB;
	/* Two devices below one switch have the switch's upstream bridge in common, and each has a
	 * downstream bridge of its own. */
	return a->nbridges - common <= 1 && b->nbridges - common <= 1 ? TOPO_PIX : TOPO_PXB;
}

const char *topo_distance_name(enum topo_distance distance)
{
	static const char *const names[] = {"PIX", "PXB", "PHB", "NODE", "SYS", "?"};

	return names[distance];
}

/* Whether a device has the same bridges, host bridge and NUMA node in two graphs. `topo` is one of
 * the two. On a machine with only one node, an unknown node is equal to every node. */
static int same_place(const struct topo *topo, const struct topo_place *a,
		      const struct topo_place *b)
{
	int known = a->numa != TOPO_NUMA_UNKNOWN && b->numa != TOPO_NUMA_UNKNOWN;

	if (a->located != b->located || a->root != b->root || a->nbridges != b->nbridges ||
	    memcmp(a->bridges, b->bridges, a->nbridges * sizeof(*a->bridges)))
		return 0;
	return a->numa == b->numa || (!known && topo->nnodes == 1);
}

/* Writes to `why` what differs between two graphs, and the address of the device unless `pci` is
 * PCI_NONE. Returns 0, the result of topo_same. */
static int report_difference(char *why, size_t cap, const char *what, pci_addr pci)
{
	char text[PCI_TEXT_MAX];

	text_format(why, cap, pci == PCI_NONE ? "%s" : "%s %s", what, pci_format(pci, text));
	return 0;
}

int topo_same(const struct topo *a, const struct topo *b, char *why, size_t cap)
{
	if (a->ngpus != b->ngpus || a->nnics != b->nnics || a->nnodes != b->nnodes) {
		text_format(why, cap, "%u GPUs, %u NICs and %u nodes", b->ngpus, b->nnics,
			    b->nnodes);
		return 0;
	}
	for (unsigned i = 0; i < a->ngpus; i++)
		if (a->gpus[i].place.pci != b->gpus[i].place.pci ||
		    !same_place(a, &a->gpus[i].place, &b->gpus[i].place))
			return report_difference(why, cap, "GPU", b->gpus[i].place.pci);
	for (unsigned i = 0; i < a->nnics; i++)
		if (a->nics[i].place.pci != b->nics[i].place.pci ||
		    strcmp(a->nics[i].name, b->nics[i].name) ||
		    !same_place(a, &a->nics[i].place, &b->nics[i].place))
			return report_difference(why, cap, "NIC", b->nics[i].place.pci);
	for (unsigned i = 0; i < a->nnodes; i++)
		if (a->nodes[i].id != b->nodes[i].id || strcmp(a->nodes[i].cpus, b->nodes[i].cpus))
			return report_difference(why, cap, "the CPUs of nodes", PCI_NONE);
	return 1;
}
