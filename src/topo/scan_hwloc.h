/* SPDX-License-Identifier: Apache-2.0 */
/* Uses the library hwloc to make the graph of this machine. Tools compare it with that of sysfs. */
#ifndef TOPO_SCAN_HWLOC_H
#define TOPO_SCAN_HWLOC_H

#include "topo/graph.h"

/*
 * Makes the graph of this machine, or of the machine that hwloc's environment variable HWLOC_FSROOT
 * names. `root` is the sysfs tree of the same machine. Driver, MAC address, state, speed and MTU of
 * NICs, and the interfaces without a PCI function, are read from `root`, not from hwloc. hwloc
 * opens its plugins, among them OpenCL's, unless HWLOC_PLUGINS_PATH names a folder without them.
 * The caller frees the graph by topo_free(). Returns ERR_UNSUPPORTED in a build without hwloc,
 * ERR_SYSTEM if hwloc fails, or ERR_NO_MEMORY.
 */
tcpx_status topo_scan_hwloc(const char *root, struct topo **out_topo);

#endif
