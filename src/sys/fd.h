/* SPDX-License-Identifier: Apache-2.0 */
/* The library's long-lived descriptors, recorded so that a forked child can close them. */
#ifndef SYS_FD_H
#define SYS_FD_H

/* A child that never calls exec would keep every connection and listener of its parent open: peers
 * would not notice the death of the parent, and its port would stay taken. So a long-lived
 * descriptor is opened through SYS_FD_OPEN, and every descriptor is closed by sys_fd_close. */

/* Records the result of a call that opens a descriptor (-1: failed; errno is kept). No fork happens
 * between the call and the record. */
#define SYS_FD_OPEN(call) (sys_fd_begin(), sys_fd_end(call))

/* The two halves, for calls that open several descriptors: more can be recorded by sys_fd_own in
 * between. Not nested; no blocking call in between. */
void sys_fd_begin(void);
int sys_fd_end(int fd); /* returns fd; -1 is not recorded */
void sys_fd_own(int fd);

/* Removes the descriptor from the table, if it is there, and closes it. */
void sys_fd_close(int fd);

/* The three stages of a fork, for sys/fork.c. The child's stage only makes system calls. */
void sys_fd_before_fork(void);
void sys_fd_in_parent(void);
void sys_fd_in_child(void);

#endif
