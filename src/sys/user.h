/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from and to memory that may vanish. The kernel copies, so that an access to missing memory
 * fails with EFAULT instead of raising a signal. */
#ifndef SYS_USER_H
#define SYS_USER_H

#include <stddef.h>

/* Copy `n` bytes from or to `user`, memory of the application that may vanish; `ours` is memory
 * that does not. Return the number of bytes copied. If it is less than `n`, the kernel could not
 * access the bytes that follow in the user's memory, or no pipe could be opened. Keep errno. A copy
 * normally takes one system call (docs/design/memory.md, "Measured"). */
size_t sys_user_read(void *ours, const void *user, size_t n);
size_t sys_user_write(void *user, const void *ours, size_t n);

/* 1 if process_vm_readv() or process_vm_writev() is forbidden, as in a sandbox, and a pipe is used
 * instead. Set by the first copy that finds it forbidden, and by tests. */
extern _Atomic int sys_user_by_pipe;

#endif
