/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the scans of a machine. */
#ifndef TOPO_SCAN_H
#define TOPO_SCAN_H

#include "topo/graph.h"

/* Reads driver, MAC, state, speed and MTU of a NIC whose name and place are set, from sysfs at
 * root. */
void topo_nic_facts(const char *root, struct topo_nic *nic);

/* Adds the interfaces without a PCI function, from sysfs at root. */
void topo_scan_virtuals(const char *root, struct topo *topo);

/* Sorts devices and nodes as graph.h says. */
void topo_sort(struct topo *topo);

#endif
