/* SPDX-License-Identifier: Apache-2.0 */
/* The record of the library's long-lived descriptors, by which a forked child closes them. */
#ifndef SYS_FD_H
#define SYS_FD_H

/* A child that never calls exec would keep its parent's connections and listener open. Peers would
 * then not notice the death of the parent, and its port would stay taken. Every long-lived
 * descriptor is therefore opened through SYS_FD_OPEN, which records it, and closed by sys_fd_close,
 * which removes the record. A forked child closes all recorded descriptors. */

/* Evaluates `call`, which opens a descriptor, and records and returns the descriptor. Returns -1
 * and keeps errno if the call fails. A fork waits until the descriptor is recorded, but for a
 * limited time (GATE_NS in fd.c). */
#define SYS_FD_OPEN(call) (sys_fd_begin(), sys_fd_end(call))

/* The two halves of SYS_FD_OPEN, for calls that open several descriptors. sys_fd_own, called
 * between the two, records a further descriptor. The pairs must not be nested, and no blocking call
 * may be made between the halves. */
void sys_fd_begin(void);
int sys_fd_end(int fd); /* returns fd; does not record -1 */
void sys_fd_own(int fd);

/* Closes the descriptor, and removes its record if there is one. Keeps errno. */
void sys_fd_close(int fd);

/* Called by sys/fork.c before a fork, and after it in the parent and in the child. sys_fd_in_child
 * only changes atomic variables and makes system calls. */
void sys_fd_before_fork(void);
void sys_fd_in_parent(void);
void sys_fd_in_child(void);

#endif
