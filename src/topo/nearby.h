/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPUs for threads that serve a GPU and a NIC: near both, among those that the process may
 * use. Pure functions of the graph; the caller binds its threads.
 */
#ifndef TOPO_NEARBY_H
#define TOPO_NEARBY_H

#include "base/cpus.h"
#include "topo/graph.h"

enum topo_near {
	TOPO_NEAR_NIC, /* CPUs of the NIC's NUMA node */
	TOPO_NEAR_GPU, /* CPUs of the GPU's node: the NIC's is unknown, or has no allowed CPUs */
	TOPO_NEAR_ANY, /* all allowed CPUs, because neither node is known and has allowed CPUs */
};

/*
 * The CPUs of allowed (the cpuset of the process) that are near nic and gpu; either may be
 * PCI_NONE or not in the graph. out_cpus may alias allowed. It is empty only if allowed is.
 */
enum topo_near topo_place_cpus(const struct topo *topo, pci_addr gpu, pci_addr nic,
			       const struct cpus *allowed, struct cpus *out_cpus);

/*
 * The node of the index-th of count threads that serve all NICs, and the allowed CPUs of that
 * node. Threads are spread over the nodes in order, in proportion to the allowed CPUs of each.
 * TOPO_NUMA_UNKNOWN, and all allowed CPUs, if no node is known.
 */
int topo_place_worker(const struct topo *topo, const struct cpus *allowed, unsigned index,
		      unsigned count, struct cpus *out_cpus);

#endif
