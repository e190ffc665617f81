/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that both scans of a machine use (scan_sysfs.c, scan_hwloc.c). */
#ifndef TOPO_SCAN_H
#define TOPO_SCAN_H

#include "topo/graph.h"

/* Reads driver, MAC address, state, speed and MTU of a NIC from the sysfs tree at `root`. The NIC's
 * name and place must be set. */
void topo_nic_facts(const char *root, struct topo_nic *nic);

/* Adds the interfaces that have no PCI function, except loopback, from the sysfs tree at `root`. */
void topo_scan_virtuals(const char *root, struct topo *topo);

/* Sorts the arrays of devices in the order that graph.h states, and the nodes by id. */
void topo_sort(struct topo *topo);

#endif
