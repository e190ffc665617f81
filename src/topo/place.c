/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs near a GPU and a NIC, inside the process's cpuset. */
#include "topo/place.h"

/* CPUs of the node of place that are allowed. 0: none is left, or the node is not known. */
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
