/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the GPUs that NVIDIA's management library (NVML) reports, with their names. Does not
 * initialise any GPU. */
#ifndef SYS_NVML_H
#define SYS_NVML_H

#include <tcpx/types.h>

#include "abi/nvml.h"
#include "base/pci.h"

struct sys_nvml_gpu {
	pci_addr pci;
	char name[NVML_NAME_MAX]; /* such as "NVIDIA H100 80GB HBM3"; "" if unknown */
};

/*
 * Lists at most `max` GPUs, and sets *out_count to their number. Leaves out a GPU whose PCI address
 * is unknown, because nothing else identifies it. The library (CONFIG_NVML_LIBRARY) is loaded for
 * this call only. Returns ERR_UNSUPPORTED if the library is missing, lacks a function, or fails,
 * for example because there is no driver; the error says which.
 */
tcpx_status sys_nvml_gpus(struct sys_nvml_gpu *out_gpus, unsigned max, unsigned *out_count);

#endif
