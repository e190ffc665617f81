/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of the traced plugin, the current GPU, and the NIC that owns it. */
#ifndef TRACE_DEVICE_H
#define TRACE_DEVICE_H

#include <stdint.h>
#include <stdio.h>

/* Scans the machine once; takes some milliseconds. */
void trace_device_start(void);

/* The plugin says which NIC its device is. 1: it was not known. */
int trace_device_learn(int dev, const char *name, const char *pci_path);

/* The GPU whose context is current on this thread; TRACE_DEV_UNKNOWN. Keeps errno. */
int16_t trace_device_gpu(void);

/* The plugin's device that owns the GPU; TRACE_DEV_UNKNOWN, TRACE_DEV_NOT_LISTED. */
int16_t trace_device_owner(int16_t gpu);

/* "nic.N.name", "nic.N.pci", "gpu.N.pci", "gpu.N.owner". */
void trace_device_write(FILE *out);
/* "topo.gpu.PCI=NIC": each GPU of the machine with the NIC that owns it; "-": none. */
void trace_device_topology(FILE *out);
const char *trace_device_name(int dev); /* NULL: not known */
int trace_device_is(const char *name);	/* a device of the plugin has the name */

#endif
