/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the CPUs for threads that serve a GPU and a NIC: near both, among those that the process
 * may use. Only computes from the graph; the caller binds its threads. */
#ifndef TOPO_NEARBY_H
#define TOPO_NEARBY_H

#include "base/cpus.h"
#include "topo/graph.h"

/* How near the chosen CPUs are. */
enum topo_near {
	TOPO_NEAR_NIC, /* CPUs of the NIC's NUMA node */
	/* CPUs of the GPU's node, because the NIC's is unknown or has no allowed CPUs */
	TOPO_NEAR_GPU,
	TOPO_NEAR_ANY, /* all allowed CPUs, because neither node is known and has allowed CPUs */
};

/*
 * *out_cpus: those of the allowed CPUs (the cpuset of the process) that are near nic, else near
 * gpu, else all; returns which. nic and gpu may be PCI_NONE or not in the graph. out_cpus may be
 * the same as allowed. *out_cpus is empty only if allowed is.
 */
enum topo_near topo_place_cpus(const struct topo *topo, pci_addr gpu, pci_addr nic,
			       const struct cpus *allowed, struct cpus *out_cpus);

/*
 * Returns the node for the thread with this index among count threads that serve all NICs;
 * *out_cpus: the allowed CPUs of that node. Threads are spread over the nodes in order, in
 * proportion to the allowed CPUs of each node. If no node has allowed CPUs: TOPO_NUMA_UNKNOWN and
 * all allowed CPUs.
 */
int topo_place_worker(const struct topo *topo, const struct cpus *allowed, unsigned index,
		      unsigned count, struct cpus *out_cpus);

#endif
