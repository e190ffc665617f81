/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport more than the library has, to show that one is a file and a line: plain send and
 * receive calls on a socket that the control plane connected, without any extra. Linked in, it
 * adopts every socket before tcp is asked. Its bytes are tcp's, so that either end may have it.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "net/transport.h"
#include "sys/fd.h"

struct plain_chan {
	struct net_chan base;
	int fd;
	_Atomic int end; /* the status of the channel's end, the first one; 0: none */
};

static struct plain_chan *plain(const struct net_chan *chan)
{
	return (struct plain_chan *)chan;
}

static tcpx_status plain_end(struct plain_chan *chan, tcpx_status status)
{
	int none = 0;

	return atomic_compare_exchange_strong(&chan->end, &none, (int)status) ? status
									      : (tcpx_status)none;
}

/* What a system call returned. */
static tcpx_status plain_moved(struct plain_chan *chan, ssize_t n, size_t *out_bytes)
{
	tcpx_status status = n < 0 ? net_status_errno(errno) : TCPX_OK;

	if (status == TCPX_IN_PROGRESS || status == TCPX_ERR_INVALID)
		return status;
	if (n <= 0)
		return plain_end(chan, n < 0 ? status : TCPX_ERR_PEER_CLOSED);
	*out_bytes = (size_t)n;
	return TCPX_OK;
}

static tcpx_status plain_send(struct net_chan *chan, const struct iovec *iov, int niov,
			      size_t *out_bytes)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)niov};
	int end = atomic_load(&plain(chan)->end);

	if (end && end != TCPX_ERR_PEER_CLOSED)
		return (tcpx_status)end;
	return plain_moved(plain(chan), sendmsg(plain(chan)->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT),
			   out_bytes);
}

static tcpx_status plain_recv(struct net_chan *chan, const struct iovec *iov, int niov,
			      size_t *out_bytes)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)niov};
	int end = atomic_load(&plain(chan)->end);

	return end ? (tcpx_status)end
		   : plain_moved(plain(chan), recvmsg(plain(chan)->fd, &msg, MSG_DONTWAIT),
				 out_bytes);
}

static int plain_arm(struct net_chan *chan, int want_recv, int want_send, uint32_t *out_events)
{
	*out_events = (want_recv > 0 ? EPOLLIN : 0u) | (want_send > 0 ? EPOLLOUT : 0u);
	return atomic_load(&plain(chan)->end) == TCPX_ERR_DISCONNECTED;
}

static int plain_fd(const struct net_chan *chan)
{
	return plain(chan)->fd;
}

static void plain_shutdown(struct net_chan *chan)
{
	(void)plain_end(plain(chan), TCPX_ERR_DISCONNECTED);
	shutdown(plain(chan)->fd, SHUT_RDWR);
}

static void plain_close(struct net_chan *chan)
{
	sys_fd_close(plain(chan)->fd);
	free(chan);
}

static void plain_info(const struct net_chan *chan, struct net_chan_info *out_info)
{
	(void)chan;
	memset(out_info, 0, sizeof(*out_info));
}

static const struct net_ops plain_ops = {
	.name = "plain",
	.send = plain_send,
	.recv = plain_recv,
	.arm = plain_arm,
	.fd = plain_fd,
	.recv_mark = net_none_recv_mark,
	.shutdown = plain_shutdown,
	.close = plain_close,
	.info = plain_info,
	.trim = net_none_trim,
};

static tcpx_status plain_adopt(int fd, struct net_chan **out_chan)
{
	struct plain_chan *chan = calloc(1, sizeof(*chan));

	if (!chan)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "plain channel");
	chan->base.ops = &plain_ops;
	chan->fd = fd;
	*out_chan = &chan->base;
	return TCPX_OK;
}

__attribute__((constructor)) static void plain_enrol(void)
{
	static const struct transport_ops transport_plain = {.name = "plain", .adopt = plain_adopt};

	net_transport_enrol(&transport_plain);
}
