/* SPDX-License-Identifier: Apache-2.0 */
/* A machine's graph by hwloc: a second opinion beside the scan of sysfs, for tools. */
#ifndef TOPO_SCAN_HWLOC_H
#define TOPO_SCAN_HWLOC_H

#include "topo/graph.h"

/*
 * The machine that hwloc sees: this one, or what its own environment (HWLOC_FSROOT) names. root: of
 * that machine's sysfs, for what hwloc does not tell: driver, state, speed and MTU of a NIC, and
 * the interfaces without PCI. hwloc opens its plugins, OpenCL among them, unless HWLOC_PLUGINS_PATH
 * names a folder without them. The caller frees the graph by topo_free(). ERR_UNSUPPORTED: built
 * without hwloc; ERR_SYSTEM: hwloc fails; ERR_NO_MEMORY.
 */
tcpx_status topo_scan_hwloc(const char *root, struct topo **out_topo);

#endif
