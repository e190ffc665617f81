/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where threads that serve a GPU and a NIC best run: on CPUs near both, among those that the
 * process may use. Pure: it looks at the graph and answers; who starts the threads sets them.
 */
#ifndef TOPO_NEARBY_H
#define TOPO_NEARBY_H

#include "base/cpus.h"
#include "topo/graph.h"

enum topo_near {
	TOPO_NEAR_NIC, /* CPUs of the NIC's NUMA node */
	TOPO_NEAR_GPU, /* of the GPU's: the NIC's node is not known, or none of its CPUs is left */
	TOPO_NEAR_ANY, /* all that the process may use: neither node is known or left */
};

/*
 * The CPUs of allowed, the process's cpuset, that are near nic and gpu; either may be PCI_NONE or
 * not in the graph. out_cpus may be allowed itself. It is empty only when allowed is.
 */
enum topo_near topo_place_cpus(const struct topo *topo, pci_addr gpu, pci_addr nic,
			       const struct cpus *allowed, struct cpus *out_cpus);

/*
 * Of count threads that serve all NICs, the index-th: the node it belongs to, nodes in order and in
 * proportion to the CPUs that allowed has of each, and those CPUs. TOPO_NUMA_UNKNOWN, and all that
 * is allowed: no node is known.
 */
int topo_place_worker(const struct topo *topo, const struct cpus *allowed, unsigned index,
		      unsigned count, struct cpus *out_cpus);

#endif
