/* SPDX-License-Identifier: Apache-2.0 */
/* Passes descriptors to other processes, as messages over unix sockets. */
#ifndef SYS_FD_PASS_H
#define SYS_FD_PASS_H

#include <stdint.h>
#include <sys/types.h>

#define SYS_FD_PASS_MAX 64u /* most descriptors of one message */

/* Sends n bytes, n > 0, and `count` descriptors, which the caller keeps, as one message. Does not
 * block. Returns 0, or -1 with errno: EAGAIN if the socket has no room for the message,
 * ETOOMANYREFS if too many descriptors of this user are in messages that nobody has received. */
int sys_fd_pass(int sock, const void *bytes, size_t n, const int *fds, uint32_t count);
/* Receives as recv() does, and does not block. Stores the descriptors of the message in `fds`,
 * which has room for `max`, and closes those for which there is no room. They are recorded, so
 * sys_fd_close must close them. Returns -1 with EMFILE and no descriptor if this process cannot
 * have all descriptors of the message. */
ssize_t sys_fd_pass_recv(int sock, void *bytes, size_t n, int *fds, uint32_t max,
			 uint32_t *out_count);

#endif
