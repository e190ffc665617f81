/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses CPUs for threads, among those that the process may use: near a NIC or GPU, or in such a
 * way that the threads spread over the NUMA nodes. */
#include "topo/nearby.h"

/* Sets *out_cpus to the allowed CPUs in the NUMA node of `place` and returns 1. Returns 0, and
 * leaves *out_cpus unchanged, if there are none or the node is unknown. */
static int node_cpus(const struct topo *topo, const struct topo_place *place,
		     const struct cpus *allowed, struct cpus *out_cpus)
{
	const char *list = place ? topo_node_cpus(topo, place->numa) : NULL;
	struct cpus node;

	if (!list || cpus_parse(list, &node))
		return 0;
	cpus_and(&node, allowed, &node);
	if (!cpus_count(&node))
		return 0;
	*out_cpus = node;
	return 1;
}

enum topo_near topo_place_cpus(const struct topo *topo, pci_addr gpu, pci_addr nic,
			       const struct cpus *allowed, struct cpus *out_cpus)
{
	const struct topo_gpu *g = topo_gpu_at(topo, gpu);
	const struct topo_nic *n = topo_nic_at(topo, nic);

	if (node_cpus(topo, n ? &n->place : NULL, allowed, out_cpus))
		return TOPO_NEAR_NIC;
	if (node_cpus(topo, g ? &g->place : NULL, allowed, out_cpus))
		return TOPO_NEAR_GPU;
	*out_cpus = *allowed;
	return TOPO_NEAR_ANY;
}

/* Sets *out_cpus to the allowed CPUs of a node, and returns their number. If the node's list cannot
 * be parsed, returns 0, and *out_cpus is not valid. */
static unsigned allowed_node_cpus(const struct topo_node *node, const struct cpus *allowed,
				  struct cpus *out_cpus)
{
	if (cpus_parse(node->cpus, out_cpus))
		return 0;
	cpus_and(out_cpus, allowed, out_cpus);
	return cpus_count(out_cpus);
}

int topo_place_worker(const struct topo *topo, const struct cpus *allowed, unsigned index,
		      unsigned count, struct cpus *out_cpus)
{
	uint64_t all = 0, at;
	struct cpus cpus;

	for (unsigned i = 0; i < topo->nnodes; i++)
		all += allowed_node_cpus(&topo->nodes[i], allowed, &cpus);
	at = count ? (2ull * index + 1) * all / (2ull * count) : 0;
	for (unsigned i = 0; i < topo->nnodes; i++) {
		unsigned here = allowed_node_cpus(&topo->nodes[i], allowed, &cpus);

		if (at < here) {
			*out_cpus = cpus;
			return topo->nodes[i].id;
		}
		at -= here;
	}
	*out_cpus = *allowed;
	return TOPO_NUMA_UNKNOWN;
}
