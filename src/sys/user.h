/* SPDX-License-Identifier: Apache-2.0 */
/* Copies by the kernel for memory that may vanish: EFAULT instead of a signal. */
#ifndef SYS_USER_H
#define SYS_USER_H

#include <stddef.h>

/* Copies n bytes from or to `user`, memory of the application that may vanish; `ours` does not.
 * Returns the number of bytes copied. If that is less than n, the next bytes of the user's
 * memory, up to the end of their page at most, cannot be accessed. Keeps errno. One system call
 * each (docs/design/memory.md, "Measured"). */
size_t sys_user_read(void *ours, const void *user, size_t n);
size_t sys_user_write(void *user, const void *ours, size_t n);

/* 1: process_vm_readv is forbidden here (a sandbox), and a pipe is used instead. Set by the first
 * copy that finds it so; tests set it. */
extern _Atomic int sys_user_by_pipe;

#endif
