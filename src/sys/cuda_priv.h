/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the source files of the CUDA driver's loader. */
#ifndef SYS_CUDA_PRIV_H
#define SYS_CUDA_PRIV_H

/* Initialises the lock of the device table again in a forked child, because another thread of the
 * parent may have held it during the fork. */
void sys_cuda_gpus_forked(void);

#endif
