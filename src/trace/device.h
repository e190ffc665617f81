/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of the traced plugin, the current GPU, and the owner NIC of a GPU: the NIC that topo/
 * pairs with the GPU. */
#ifndef TRACE_DEVICE_H
#define TRACE_DEVICE_H

#include <stdint.h>
#include <stdio.h>

/* Scans the machine for GPUs and their owner NICs, once; takes some milliseconds. Keeps errno. */
void trace_device_start(void);

/* Records name and PCI address (last part of the path) of the plugin's device number `dev`.
 * Returns 1 if the device was not known before. Returns 0 if it was, if `dev` is not in 0 .. 31, or
 * if `name` is NULL. */
int trace_device_learn(int dev, const char *name, const char *pci_path);

/* Returns the ordinal of the GPU whose context is current on this thread. Returns TRACE_DEV_UNKNOWN
 * if there is none or the process has not loaded the driver. Keeps errno. */
int16_t trace_device_gpu(void);

/* Returns the number of the plugin's device that is the owner NIC of the GPU. Returns
 * TRACE_DEV_UNKNOWN if no owner is known, and TRACE_DEV_NOT_LISTED if the owner is not a device of
 * the plugin. */
int16_t trace_device_owner(int16_t gpu);

/* Writes the lines "nic.N.name" and "nic.N.pci" for the plugin's devices, and "gpu.N.pci" and
 * "gpu.N.owner" for the GPUs that have been current. */
void trace_device_write(FILE *out);
/* Writes a line "topo.gpu.PCI=NIC" for each GPU of the machine: the NIC that owns it, or "-" for
 * none. */
void trace_device_topology(FILE *out);
/* Writes the name of a device of the plugin to `out`. Returns 1, or 0 if it is not known. */
int trace_device_name(int dev, char *out, size_t cap);
int trace_device_is(const char *name); /* whether a device of the plugin has that name */

#endif
