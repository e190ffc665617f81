/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs that NVIDIA's management library (NVML) reports, and their names. No GPU is
 * initialised. */
#ifndef SYS_NVML_H
#define SYS_NVML_H

#include <tcpx/types.h>

#include "abi/nvml.h"
#include "base/pci.h"

struct sys_nvml_gpu {
	pci_addr pci;
	char name[NVML_NAME_MAX]; /* "NVIDIA H100 80GB HBM3"; "": unknown */
};

/*
 * Lists at most max GPUs; *out_count: how many were written. The library (CONFIG_NVML_LIBRARY) is
 * loaded for this call only. ERR_UNSUPPORTED: the library is missing, or does not start (no
 * driver); the error says which. A GPU whose PCI address is unknown is left out, because nothing
 * else identifies it.
 */
tcpx_status sys_nvml_gpus(struct sys_nvml_gpu *out_gpus, unsigned max, unsigned *out_count);

#endif
