/* SPDX-License-Identifier: Apache-2.0 */
/* Distinguishes a forked child from the process that initialised the library. */
#ifndef SYS_FORK_H
#define SYS_FORK_H

#include <stdint.h>

#include <tcpx/types.h>

/* Registers the fork handlers once, and marks the calling process as the one that initialised
 * the library; a child that starts its own runtime calls this again. ERR_NO_MEMORY. Any thread. */
tcpx_status sys_fork_init(void);

/* 1 in a child (of any depth) of the process that called sys_fork_init() last, else 0. */
int sys_forked(void);

/* A number that grows by 1 in every child, so that objects that carry it can be refused after a
 * fork. */
uint32_t sys_fork_generation(void);

#endif
