/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses CPUs for threads, among those that the process may use: near a NIC or GPU, or in such a
 * way that the threads spread over the NUMA nodes. The functions only compute; the caller binds its
 * threads to the CPUs. */
#ifndef TOPO_NEARBY_H
#define TOPO_NEARBY_H

#include "base/cpus.h"
#include "topo/graph.h"

/* Which CPUs were chosen. */
enum topo_near {
	TOPO_NEAR_NIC, /* allowed CPUs of the NIC's NUMA node */
	/* allowed CPUs of the GPU's node, because the NIC's node is unknown or has none */
	TOPO_NEAR_GPU,
	TOPO_NEAR_ANY, /* all allowed CPUs: both nodes are unknown or have no allowed CPU */
};

/*
 * Chooses among the CPUs in `allowed`, the cpuset of the process. Sets *out_cpus to those of the
 * NIC's node, else to those of the GPU's node, else to all. Returns which of the three it chose.
 * `nic` and `gpu` may be PCI_NONE or missing in the graph. out_cpus may be equal to `allowed`.
 * *out_cpus becomes empty only if `allowed` is empty.
 */
enum topo_near topo_place_cpus(const struct topo *topo, pci_addr gpu, pci_addr nic,
			       const struct cpus *allowed, struct cpus *out_cpus);

/*
 * Chooses a NUMA node for thread number `index` of the `count` threads that serve all NICs. The
 * threads are spread over the nodes in proportion to the allowed CPUs of each node. Sets *out_cpus
 * to the allowed CPUs of the node, and returns its id. If no node has allowed CPUs, sets *out_cpus
 * to all allowed CPUs and returns TOPO_NUMA_UNKNOWN.
 */
int topo_place_worker(const struct topo *topo, const struct cpus *allowed, unsigned index,
		      unsigned count, struct cpus *out_cpus);

#endif
