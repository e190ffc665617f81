/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the CUDA driver's loader. */
#ifndef SYS_CUDA_PRIV_H
#define SYS_CUDA_PRIV_H

/* Called in a forked child: makes the lock of the table of devices usable, which another thread of
 * the parent may have held. */
void sys_cuda_gpus_forked(void);

#endif
