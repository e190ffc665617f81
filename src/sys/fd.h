/* SPDX-License-Identifier: Apache-2.0 */
/* The library's long-lived descriptors, recorded so that a forked child can close them. */
#ifndef SYS_FD_H
#define SYS_FD_H

/* A child that never calls exec would keep every connection and listener of its parent open: peers
 * would not notice the death of the parent, and its port would stay taken. So every long-lived
 * descriptor is opened through SYS_FD_OPEN, which records it, and closed by sys_fd_close, which
 * removes the record. A forked child closes what is recorded. */

/* Records the descriptor that the call opens, and returns it (-1: the call failed; errno is kept).
 * No fork happens between the call and the record. */
#define SYS_FD_OPEN(call) (sys_fd_begin(), sys_fd_end(call))

/* The two halves of SYS_FD_OPEN, for calls that open several descriptors: sys_fd_own records more
 * of them in between. Not nested; no blocking call in between. */
void sys_fd_begin(void);
int sys_fd_end(int fd); /* returns fd; -1 is not recorded */
void sys_fd_own(int fd);

/* Closes the descriptor, and removes its record if there is one. Keeps errno. */
void sys_fd_close(int fd);

/* The three stages of a fork, called by sys/fork.c. The child's stage only makes system calls. */
void sys_fd_before_fork(void);
void sys_fd_in_parent(void);
void sys_fd_in_child(void);

#endif
