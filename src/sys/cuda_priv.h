/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the CUDA driver's loader tell each other. */
#ifndef SYS_CUDA_PRIV_H
#define SYS_CUDA_PRIV_H

/* In a forked child: the table of devices belongs to the parent. */
void sys_cuda_gpus_forked(void);

#endif
