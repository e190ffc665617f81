/* SPDX-License-Identifier: Apache-2.0 */
/* The library's lasting descriptors: which they are, so that a forked child can close them. */
#ifndef SYS_FD_H
#define SYS_FD_H

/* A child that only forks would keep every connection and listener of its parent open: peers would
 * not notice the parent's death, and its port would stay taken. So whatever opens a descriptor that
 * lasts does it through SYS_FD_OPEN, and every descriptor is closed by sys_fd_close. */

/* The value of a call that opens a descriptor (-1: failed; errno is kept), entered in the table. No
 * fork happens between the call and the entry. */
#define SYS_FD_OPEN(call) (sys_fd_begin(), sys_fd_end(call))

/* The two halves, for calls that open several: they may enter more with sys_fd_own in between. Not
 * nested; only calls that do not block go in between. */
void sys_fd_begin(void);
int sys_fd_end(int fd); /* returns fd; -1: enters nothing */
void sys_fd_own(int fd);

/* Takes the descriptor out of the table and closes it. Any descriptor, entered or not. */
void sys_fd_close(int fd);

/* The three moments of a fork, for sys/fork.c. The child's makes system calls only. */
void sys_fd_before_fork(void);
void sys_fd_in_parent(void);
void sys_fd_in_child(void);

#endif
