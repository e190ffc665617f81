/* SPDX-License-Identifier: Apache-2.0 */
/* Distinguishes a forked child from the process that initialised. */
#ifndef SYS_FORK_H
#define SYS_FORK_H

#include <stdint.h>

#include <tcpx/types.h>

/* Registers the handler once and marks the calling process as the one that initialised; a child
 * that starts its own runtime calls it again. Any thread. */
tcpx_status sys_fork_init(void);

/* 1 in a child (of any depth) of the process that called sys_fork_init() last, else 0. One load. */
int sys_forked(void);

/* Incremented in every child: objects stamped with it can be refused after a fork. */
uint32_t sys_fork_generation(void);

#endif
