/* SPDX-License-Identifier: Apache-2.0 */
/* Sends without a copy: the kernel reports on the error queue when it has let go of the pages. */
#include "emu.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <string.h>
#include <sys/socket.h>

void emu_zero_open(struct emu_lane *lane)
{
	int one = 1;

	if (!emu_config.zero_copy[EMU_HOST] && !emu_config.zero_copy[EMU_CUDA])
		return;
	lane->zero_ready = !setsockopt(lane->fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one));
}

/* A report is a range of sends; ranges come in order. */
static void report(struct emu_lane *lane, const struct sock_extended_err *error)
{
	if (error->ee_errno == 0 && error->ee_origin == SO_EE_ORIGIN_ZEROCOPY &&
	    (int32_t)(error->ee_data + 1 - lane->zero_done) > 0)
		lane->zero_done = error->ee_data + 1;
}

int emu_zero_reports(struct emu_lane *lane)
{
	while (lane->zero_done != lane->zero_sent) {
		char space[CMSG_SPACE(sizeof(struct sock_extended_err)) + 64];
		struct msghdr header = {.msg_control = space, .msg_controllen = sizeof(space)};
		struct sock_extended_err error;
		struct cmsghdr *at;

		if (recvmsg(lane->fd, &header, MSG_ERRQUEUE) < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		for (at = CMSG_FIRSTHDR(&header); at; at = CMSG_NXTHDR(&header, at)) {
			memcpy(&error, CMSG_DATA(at), sizeof(error));
			report(lane, &error);
		}
	}
	return 0;
}
