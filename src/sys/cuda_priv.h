/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the CUDA driver's loader. */
#ifndef SYS_CUDA_PRIV_H
#define SYS_CUDA_PRIV_H

/* Resets the table of devices in a forked child, because it belongs to the parent. */
void sys_cuda_gpus_forked(void);

#endif
