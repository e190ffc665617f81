/* SPDX-License-Identifier: Apache-2.0 */
/* Copies by the kernel of memory that may vanish: EFAULT where we would get a signal. */
#ifndef SYS_USER_H
#define SYS_USER_H

#include <stddef.h>

/* user is the memory that may vanish, ours is there. Return how many bytes were copied; fewer than
 * n: the user's memory right after them, up to the end of its page at most, cannot be reached.
 * errno stays what it was. A system call each (docs/design/memory.md, "Measured"). */
size_t sys_user_read(void *ours, const void *user, size_t n);
size_t sys_user_write(void *user, const void *ours, size_t n);

/* 1: process_vm_readv is not allowed here (a sandbox), and a pipe does it. Found out by the first
 * copy; tests set it. */
extern _Atomic int sys_user_by_pipe;

#endif
