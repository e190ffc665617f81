/* SPDX-License-Identifier: Apache-2.0 */
/* Uses the library hwloc to make the graph of this machine. */
#include "topo/scan_hwloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/scan.h"

#ifdef TCPX_WITH_HWLOC
#include <hwloc.h>

/* Fills in the place of a PCI device: its address, the bridges above it, its host bridge and NUMA
 * node. Returns 0, or -1 if it has more than TOPO_BRIDGES_MAX bridges above it. */
static int hwloc_place(hwloc_topology_t hwloc, hwloc_obj_t pci, struct topo_place *out)
{
	const struct hwloc_pcidev_attr_s *at = &pci->attr->pcidev;
	struct topo_place place = {.located = 1, .numa = TOPO_NUMA_UNKNOWN};
	hwloc_obj_t above = pci->parent;
	pci_addr up[TOPO_BRIDGES_MAX];
	unsigned n = 0;

	place.pci = (pci_addr)at->domain << 16 | (unsigned)at->bus << 8 | (unsigned)at->dev << 3 |
		    at->func;
	place.vendor = at->vendor_id;
	place.device = at->device_id;
	for (; above && above->type == HWLOC_OBJ_BRIDGE; above = above->parent) {
		const struct hwloc_bridge_attr_s *bridge = &above->attr->bridge;

		if (bridge->upstream_type == HWLOC_OBJ_BRIDGE_HOST) {
			place.root = (uint64_t)bridge->downstream.pci.domain << 8 |
				     bridge->downstream.pci.secondary_bus;
			continue;
		}
		if (n == TOPO_BRIDGES_MAX)
			return -1;
		at = &bridge->upstream.pci;
		up[n++] = (pci_addr)at->domain << 16 | (unsigned)at->bus << 8 |
			  (unsigned)at->dev << 3 | at->func;
	}
	for (unsigned i = 0; i < n; i++)
		place.bridges[i] = up[n - 1 - i];
	place.nbridges = n;
	above = hwloc_get_non_io_ancestor_obj(hwloc, pci);
	if (above && above->nodeset && hwloc_bitmap_weight(above->nodeset) == 1)
		place.numa = hwloc_bitmap_first(above->nodeset);
	*out = place;
	return 0;
}

static void hwloc_gpus(hwloc_topology_t hwloc, struct topo *topo)
{
	for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(hwloc, o)) != NULL;) {
		const struct hwloc_pcidev_attr_s *at = &o->attr->pcidev;

		if (at->class_id >> 8 == 0x03 && at->vendor_id == TOPO_VENDOR_NVIDIA &&
		    topo->ngpus < TOPO_GPUS_MAX &&
		    !hwloc_place(hwloc, o, &topo->gpus[topo->ngpus].place))
			topo->ngpus++;
	}
}

static void hwloc_nics(hwloc_topology_t hwloc, const char *root, struct topo *topo)
{
	for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(hwloc, o)) != NULL;) {
		struct topo_nic *nic = &topo->nics[topo->nnics];
		hwloc_obj_t above = o->parent;

		while (above && above->type == HWLOC_OBJ_OS_DEVICE)
			above = above->parent;
		if (o->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK || !o->name ||
		    strlen(o->name) >= sizeof(nic->name) || !above ||
		    above->type != HWLOC_OBJ_PCI_DEVICE || topo->nnics == TOPO_NICS_MAX ||
		    hwloc_place(hwloc, above, &nic->place))
			continue;
		snprintf(nic->name, sizeof(nic->name), "%s", o->name);
		topo_nic_facts(root, nic);
		topo->nnics++;
	}
}

static void hwloc_nodes(hwloc_topology_t hwloc, struct topo *topo)
{
	hwloc_obj_t o = NULL;

	while ((o = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, o)) != NULL &&
	       topo->nnodes < TOPO_NODES_MAX) {
		struct topo_node *node = &topo->nodes[topo->nnodes++];
		int len = hwloc_bitmap_list_snprintf(node->cpus, sizeof(node->cpus), o->cpuset);

		node->id = (int)o->os_index;
		if (len < 0 || (size_t)len >= sizeof(node->cpus))
			node->cpus[0] = '\0';
	}
}

/* Loads hwloc's topology. It includes all devices and bridges, and CPUs that this process may not
 * use. hwloc's components that start a driver to find devices are disabled. Returns 0 or -1. */
static int load_hwloc(hwloc_topology_t hwloc)
{
	static const char *const drivers[] = {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero"};

	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		(void)hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
						    drivers[i]);
	if (hwloc_topology_set_flags(hwloc, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) ||
	    hwloc_topology_set_io_types_filter(hwloc, HWLOC_TYPE_FILTER_KEEP_ALL))
		return -1;
	return hwloc_topology_load(hwloc);
}

tcpx_status topo_scan_hwloc(const char *root, struct topo **out_topo)
{
	struct topo *topo = calloc(1, sizeof(*topo));
	hwloc_topology_t hwloc;

	if (!topo)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a machine's topology");
	if (hwloc_topology_init(&hwloc)) {
		topo_free(topo);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "hwloc does not start");
	}
	if (load_hwloc(hwloc)) {
		int err = errno;

		hwloc_topology_destroy(hwloc);
		topo_free(topo);
		return error_set(TCPX_ERR_SYSTEM, err, "hwloc cannot look at this machine");
	}
	hwloc_gpus(hwloc, topo);
	hwloc_nics(hwloc, root, topo);
	hwloc_nodes(hwloc, topo);
	hwloc_topology_destroy(hwloc);
	/* hwloc does not report interfaces without a PCI function */
	topo_scan_virtuals(root, topo);
	topo_sort(topo);
	*out_topo = topo;
	return TCPX_OK;
}

#else

tcpx_status topo_scan_hwloc(const char *root, struct topo **out_topo)
{
	(void)root;
	(void)out_topo;
	return error_set(TCPX_ERR_UNSUPPORTED, 0, "built without hwloc");
}

#endif
