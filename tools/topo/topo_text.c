/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx topo as text: lists, then the matrix. */
#include <stdio.h>
#include <string.h>

#include "topo_view.h"

static const char *node_text(int numa, char buf[16])
{
	if (numa == TOPO_NUMA_UNKNOWN)
		return "-";
	snprintf(buf, 16, "%d", numa);
	return buf;
}

static void print_nodes(const struct topo *topo)
{
	printf("NUMA nodes: %u\n", topo->nnodes);
	for (unsigned i = 0; i < topo->nnodes; i++)
		printf("  node%-3d CPUs %s\n", topo->nodes[i].id,
		       *topo->nodes[i].cpus ? topo->nodes[i].cpus : "-");
}

static void print_gpus(const struct topo_view *view)
{
	const struct topo *topo = view->topo;
	char pci[PCI_TEXT_MAX], node[16];

	printf("GPUs: %u\n", topo->ngpus);
	for (unsigned i = 0; i < topo->ngpus; i++) {
		printf("  GPU%-3u  %s  node %-2s  ", i, pci_format(topo->gpus[i].place.pci, pci),
		       node_text(topo->gpus[i].place.numa, node));
		if (view->names_by && !view->visible[i])
			printf("%s does not see it\n", view->names_by);
		else
			printf("%s\n", *view->names[i] ? view->names[i] : "-");
	}
}

static void print_nic(const struct topo_nic *nic)
{
	char pci[PCI_TEXT_MAX], node[16], speed[32];

	printf("  %-15s %-12s  node %-2s  %-12s %-11s %s\n", nic->name,
	       nic->place.pci == PCI_NONE ? "virtual" : pci_format(nic->place.pci, pci),
	       node_text(nic->place.numa, node), *nic->driver ? nic->driver : "-",
	       topo_view_speed(nic->speed_mbps, speed, sizeof(speed)),
	       *nic->state ? nic->state : "-");
}

static void topo_text_print_nics(const struct topo *topo)
{
	printf("NICs: %u on PCI, %u virtual\n", topo->nnics, topo->nvirtuals);
	for (unsigned i = 0; i < topo->nnics; i++)
		print_nic(&topo->nics[i]);
	for (unsigned i = 0; i < topo->nvirtuals; i++)
		print_nic(&topo->virtuals[i]);
}

static int width_of(const struct topo_nic *nic)
{
	size_t len = strlen(nic->name);

	return len < 5 ? 5 : (int)len;
}

static void topo_text_print_matrix(const struct topo_view *view)
{
	const struct topo *topo = view->topo;

	printf("distances, * the NIC that owns the GPU:\n        ");
	for (unsigned k = 0; k < topo->nnics; k++)
		printf(k + 1 < topo->nnics ? " %-*s" : " %.*s", width_of(&topo->nics[k]),
		       topo->nics[k].name);
	putchar('\n');
	for (unsigned i = 0; i < topo->ngpus; i++) {
		int pad = 0;

		printf("  GPU%-3u", i);
		for (unsigned k = 0; k < topo->nnics; k++) {
			const char *cell = topo_view_cell(topo_view_distance(view, i, k));
			int owns = topo_view_owns(view, i, k);

			printf(" %*s%s%s", pad, "", cell, owns ? "*" : "");
			pad = width_of(&topo->nics[k]) - (int)strlen(cell) - owns;
		}
		putchar('\n');
	}
}

static void print_owners(const struct topo_view *view)
{
	static const char *const nears[] = {"of the NIC's node", "of the GPU's node",
					    "all usable ones"};
	char cpus[CPUS_TEXT];

	printf("owners (RxDM: %s):\n", view->rxdm);
	for (unsigned i = 0; i < view->topo->ngpus; i++) {
		const struct topo_owner *owner = &view->pairs.owners[i];
		enum topo_near near = topo_view_cpus(view, i, cpus);

		printf("  GPU%-3u  %-8s by %-4s  RxDM %-9s  CPUs %s", i,
		       *owner->nic_name ? owner->nic_name : "none", topo_view_source(owner),
		       topo_view_rxdm(view, owner), *cpus ? cpus : "-");
		printf(*cpus ? " (%s)\n" : "\n", nears[near]);
	}
	printf("  a3vm: RxDM's preset; PCIe: the nearest, which RxDM takes without a preset\n");
}

void topo_text_print(const struct topo_view *view)
{
	printf("scan: %s\n", view->scan);
	print_nodes(view->topo);
	print_gpus(view);
	topo_text_print_nics(view->topo);
	if (!view->topo->ngpus)
		return;
	if (view->topo->nnics) {
		topo_text_print_matrix(view);
		printf("  PIX one switch, PXB several, PHB host bridge, NODE within a node, "
		       "SYS between nodes\n");
	}
	print_owners(view);
}
