/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs NVIDIA's management library (NVML) sees, and their names. No GPU is touched by it. */
#ifndef SYS_NVML_H
#define SYS_NVML_H

#include <tcpx/types.h>

#include "abi/nvml.h"
#include "base/pci.h"

struct sys_nvml_gpu {
	pci_addr pci;
	char name[NVML_NAME_MAX]; /* "NVIDIA H100 80GB HBM3"; "": it does not say */
};

/*
 * The GPUs, at most max; out_count: how many were written. The library (CONFIG_NVML_LIBRARY) is
 * loaded, asked and let go again. ERR_UNSUPPORTED: there is none, or it does not start (no driver);
 * the error says which. A GPU that does not tell its address is left out: it has no identity.
 */
tcpx_status sys_nvml_gpus(struct sys_nvml_gpu *out_gpus, unsigned max, unsigned *out_count);

#endif
