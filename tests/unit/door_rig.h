/* SPDX-License-Identifier: Apache-2.0 */
/* A listener of same-host channels in a loop of the test's, and strangers at it. */
#ifndef UNIT_DOOR_RIG_H
#define UNIT_DOOR_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/error.h"
#include "net/local/local_priv.h"
#include "net_pair.h"

#define RING 65536u

struct door {
	struct sys_loop loop;
	struct transport_listener *listener;
	char name[LOCAL_NAME_MAX];
	int arrivals, keep, asked, expects_nobody;
	struct net_chan *chan;
	uint8_t nonce[LOCAL_NONCE_BYTES];
	uint16_t channel;
	uint32_t epoch;
};

static inline int door_arrived(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
			       uint32_t epoch, struct net_chan *chan)
{
	struct door *door = arg;

	door->arrivals++;
	memcpy(door->nonce, nonce, LOCAL_NONCE_BYTES);
	door->channel = channel;
	door->epoch = epoch;
	if (door->keep)
		door->chan = chan;
	return door->keep;
}

static inline int door_expects(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES])
{
	struct door *door = arg;

	(void)nonce;
	door->asked++;
	return !door->expects_nobody;
}

static const struct transport_listen_ops door_ops = {.expected = door_expects,
						     .arrived = door_arrived};

static inline void door_open(struct door *door)
{
	memset(door, 0, sizeof(*door));
	door->keep = 1;
	assert_int_equal(sys_loop_init(&door->loop), TCPX_OK);
	assert_int_equal(
		local_listener_open(&door->loop, &door_ops, door, door->name, &door->listener),
		TCPX_OK);
}

static inline void door_close(struct door *door)
{
	local_listener_close(door->listener);
	if (door->chan)
		door->chan->ops->close(door->chan);
	sys_loop_fini(&door->loop);
}

/* A stranger's socket at the door. */
static inline int knock(const struct door *door)
{
	struct sockaddr_un addr;
	unsigned len = local_address(door->name, &addr);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, len), 0);
	return fd;
}

static inline void show(int fd, const void *bytes, size_t len, const int *fds, int nfds)
{
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(void *)bytes, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (nfds) {
		struct cmsghdr *cmsg;

		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, (size_t)nfds * sizeof(int));
	}
	assert_int_equal(sendmsg(fd, &msg, MSG_NOSIGNAL), len);
}

/* Runs the loop until the stranger's socket is closed at the far end. */
static inline void until_thrown_out(struct door *door, int fd)
{
	char byte;
	ssize_t n;

	while ((n = recv(fd, &byte, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
		sys_loop_round(&door->loop, 50000000);
	assert_true(n <= 0);
	close(fd);
}

#endif
