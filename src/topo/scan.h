/* SPDX-License-Identifier: Apache-2.0 */
/* Used by both scans of a machine (scan_sysfs.c, scan_hwloc.c). */
#ifndef TOPO_SCAN_H
#define TOPO_SCAN_H

#include "topo/graph.h"

/* Reads driver, MAC address, state, speed and MTU of a NIC whose name and place are set, from the
 * sysfs tree at root. */
void topo_nic_facts(const char *root, struct topo_nic *nic);

/* Adds the interfaces without a PCI function, from the sysfs tree at root. */
void topo_scan_virtuals(const char *root, struct topo *topo);

/* Sorts the arrays of devices and nodes as graph.h says. */
void topo_sort(struct topo *topo);

#endif
