/* SPDX-License-Identifier: Apache-2.0 */
/* Passes descriptors as control messages (SCM_RIGHTS). */
#include "sys/fd_pass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/fd.h"

/* Room for the control message with the most descriptors, aligned as it must be. */
union control {
	char bytes[CMSG_SPACE(SYS_FD_PASS_MAX * sizeof(int))];
	struct cmsghdr align;
};

int sys_fd_pass(int sock, const void *bytes, size_t n, const int *fds, uint32_t count)
{
	union control control = {0};
	struct iovec iov = {(void *)bytes, n};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	ssize_t sent;

	if (!count || count > SYS_FD_PASS_MAX) {
		errno = EINVAL;
		return -1;
	}
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
	sent = sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent == (ssize_t)n)
		return 0;
	if (sent >= 0)
		errno = EAGAIN; /* only a part, which a stream socket may send */
	return -1;
}

/* Stores the descriptors of one control message, from fds[*inout_count] on, and closes those beyond
 * `max`. */
static void take_message(const struct cmsghdr *cmsg, int *fds, uint32_t max, uint32_t *inout_count)
{
	size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
		if (*inout_count == max) {
			close(fd); /* not recorded, so not sys_fd_close() */
			continue;
		}
		sys_fd_own(fd);
		fds[(*inout_count)++] = fd;
	}
}

ssize_t sys_fd_pass_recv(int sock, void *bytes, size_t n, int *fds, uint32_t max,
			 uint32_t *out_count)
{
	union control control;
	struct iovec iov = {bytes, n};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *cmsg;
	ssize_t got;

	*out_count = 0;
	sys_fd_begin();
	got = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	for (cmsg = got < 0 ? NULL : CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg))
		if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
			take_message(cmsg, fds, max, out_count);
	sys_fd_end(-1);
	if (got < 0 || !(msg.msg_flags & MSG_CTRUNC))
		return got;
	while (*out_count)
		sys_fd_close(fds[--*out_count]);
	errno = EMFILE;
	return -1;
}
