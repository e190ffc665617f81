/* SPDX-License-Identifier: Apache-2.0 */
/* What the scans of a machine share. */
#ifndef TOPO_SCAN_H
#define TOPO_SCAN_H

#include "topo/graph.h"

/* Driver, MAC, state, speed and MTU of a NIC whose name and place are set, from sysfs at root. */
void topo_nic_facts(const char *root, struct topo_nic *nic);

/* Adds the interfaces of no PCI function. */
void topo_scan_virtuals(const char *root, struct topo *topo);

/* Puts devices and nodes into the order that graph.h tells. */
void topo_sort(struct topo *topo);

#endif
