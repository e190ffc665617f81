/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of a machine by hwloc, for tools, which compare it with the scan of sysfs. */
#ifndef TOPO_SCAN_HWLOC_H
#define TOPO_SCAN_HWLOC_H

#include "topo/graph.h"

/*
 * Makes the graph of a machine by hwloc: of this machine, or of the one that hwloc's own
 * environment (HWLOC_FSROOT) names. root: the sysfs tree of that machine, for what hwloc does not
 * report: driver, state, speed and MTU of a NIC, and interfaces without a PCI function. hwloc
 * opens its plugins, OpenCL among them, unless HWLOC_PLUGINS_PATH names a folder without them. The
 * caller frees the graph by topo_free(). ERR_UNSUPPORTED: built without hwloc; ERR_SYSTEM: hwloc
 * failed; ERR_NO_MEMORY.
 */
tcpx_status topo_scan_hwloc(const char *root, struct topo **out_topo);

#endif
