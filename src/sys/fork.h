/* SPDX-License-Identifier: Apache-2.0 */
/* Distinguishes a forked child from the process that initialised the library. */
#ifndef SYS_FORK_H
#define SYS_FORK_H

#include <stdint.h>

#include <tcpx/types.h>

/* Marks the calling process as the one that initialised the library, and registers the fork
 * handlers at the first call. A child that starts its own runtime calls this function as well.
 * Returns ERR_NO_MEMORY if the handlers cannot be registered. Any thread. */
tcpx_status sys_fork_init(void);

/* Returns 1 in a child of the process that called sys_fork_init() last, and in that child's own
 * children, otherwise 0. */
int sys_forked(void);

/* Returns a number that is greater by 1 in each child than in its parent. An object stores the
 * number of the process that made it, so that a child can refuse objects of its parent. */
uint32_t sys_fork_generation(void);

#endif
