/* SPDX-License-Identifier: Apache-2.0 */
/* The transport tcp: stream channels over TCP sockets. */
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/law.h"
#include "net/tcp/pages.h"
#include "net/transport.h"
#include "sys/fd.h"
#include "sys/sock.h"

struct tcp_chan {
	struct net_chan base;
	int fd;
	/* Status with which each direction ended; 0 until then. Accessed only by the owner of the
	 * direction. */
	tcpx_status tx_end, rx_end;
	/* Status of the first failure in either direction, or 0. The kernel reports a reset to one
	 * call only; a call in the other direction then sees an orderly end. */
	_Atomic int lost;
	_Atomic int down; /* 1 once tcp_shutdown was called */
	size_t mark;	  /* current SO_RCVLOWAT, in bytes; for the rx owner */
	struct tcp_pages pages;
};

/* Returns the status of a call that failed with the errno `err`. After IN_PROGRESS and INVALID the
 * channel still works. Otherwise the channel is lost, and *end is set to the returned status, which
 * is that of the first failure in either direction. If this call is the first failure, the status
 * is DISCONNECTED after tcp_shutdown(), else that of the errno. */
static tcpx_status tcp_failed(struct tcp_chan *chan, int err, tcpx_status *end)
{
	tcpx_status status = net_status_errno(err);
	int none = 0;

	if (status == TCPX_IN_PROGRESS || status == TCPX_ERR_INVALID)
		return status;
	if (atomic_load_explicit(&chan->down, memory_order_acquire))
		status = TCPX_ERR_DISCONNECTED;
	if (!atomic_compare_exchange_strong(&chan->lost, &none, status))
		status = none;
	*end = status;
	return status;
}

/* Converts the result of a send call into a status. n is the number of bytes sent, or negative with
 * errno set. */
static tcpx_status tcp_sent(struct tcp_chan *chan, ssize_t n, size_t *out_bytes)
{
	if (n < 0)
		return tcp_failed(chan, errno, &chan->tx_end);
	if (n == 0)
		return TCPX_IN_PROGRESS;
	*out_bytes = (size_t)n;
	return TCPX_OK;
}

static ssize_t tcp_copy(const struct tcp_chan *chan, const struct iovec *iov, int niov, int more)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)niov};
	ssize_t n;

	do
		n = sendmsg(chan->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
	while (n < 0 && errno == EINTR);
	return n;
}

/* Sets *out_bytes to the number of bytes sent. If an error followed these bytes, the next send
 * returns it. */
static tcpx_status tcp_paged(struct tcp_chan *chan, size_t bytes, size_t *out_bytes)
{
	if (chan->pages.err)
		(void)tcp_failed(chan, chan->pages.err, &chan->tx_end);
	chan->pages.err = 0;
	return tcp_sent(chan, (ssize_t)bytes, out_bytes);
}

static tcpx_status tcp_send(struct net_chan *base, const struct iovec *iov, int niov,
			    size_t *out_bytes)
{
	struct tcp_chan *chan = (struct tcp_chan *)base;

	law_free("tcp_send");
	if (chan->tx_end)
		return chan->tx_end;
	/* If the pipe still contains bytes of a held piece, they come first, whatever iov begins
	 * with. */
	if (chan->pages.filled) {
		long went = tcp_pages_drain(&chan->pages, chan->fd, 0);

		if (went < 0)
			return tcp_failed(chan, errno, &chan->tx_end);
		if (went)
			return tcp_paged(chan, (size_t)went, out_bytes);
	}
	return tcp_sent(chan, tcp_copy(chan, iov, niov, 0), out_bytes);
}

/* The pieces that one step of tcp_send_held sends: either one held piece of at least TCP_PAGES_MIN
 * bytes by its pages, or all pieces before the next such piece by a copy. */
struct tcp_part {
	size_t bytes;
	int niov; /* number of pieces */
	int by_pages;
};

/* Returns the part that begins at piece `at`. Pieces first .. first + held - 1 are held. */
static struct tcp_part next_part(const struct iovec *iov, int niov, int at, int first, int held)
{
	struct tcp_part part = {0};

	for (; at + part.niov < niov; part.niov++) {
		const struct iovec *piece = &iov[at + part.niov];

		if (at + part.niov >= first && at + part.niov < first + held &&
		    piece->iov_len >= TCP_PAGES_MIN)
			break;
		part.bytes += piece->iov_len;
	}
	return part.niov ? part : (struct tcp_part){iov[at].iov_len, 1, 1};
}

/* See net_zerocopy_ops.send_held. Sends one part after another until the socket is full. If sending
 * by pages does not work, everything is copied. */
static tcpx_status tcp_send_held(struct net_chan *base, const struct iovec *iov, int niov,
				 int first, int held, size_t *out_bytes)
{
	struct tcp_chan *chan = (struct tcp_chan *)base;
	struct tcp_pages *pages = &chan->pages;
	ssize_t went = 0;
	size_t sum = 0;
	int at = 0;

	law_free("tcp_send_held");
	if (chan->tx_end)
		return chan->tx_end;
	while (at < niov && !pages->impossible && !pages->err) {
		struct tcp_part part = next_part(iov, niov, at, first, held);

		/* If the pipe contains bytes, they belong to this piece, which then goes by pages
		 * even if its rest is shorter than TCP_PAGES_MIN. */
		if (pages->filled)
			part = (struct tcp_part){iov[at].iov_len, 1, 1};
		if (part.by_pages)
			went = tcp_pages_send(pages, chan->fd, &iov[at], at + 1 < niov);
		else
			went = tcp_copy(chan, iov + at, part.niov, at + part.niov < niov);
		if (went <= 0)
			break;
		sum += (size_t)went;
		if ((size_t)went < part.bytes)
			break;
		at += part.niov;
	}
	if (!sum && pages->impossible)
		return tcp_send(base, iov, niov, out_bytes);
	if (!sum)
		return tcp_sent(chan, went, out_bytes);
	if (went < 0)
		pages->err = errno;
	return tcp_paged(chan, sum, out_bytes);
}

/* Returns the status that says why receiving has ended. */
static tcpx_status tcp_eof(struct tcp_chan *chan)
{
	int lost = atomic_load_explicit(&chan->lost, memory_order_acquire);

	if (atomic_load_explicit(&chan->down, memory_order_acquire))
		chan->rx_end = TCPX_ERR_DISCONNECTED;
	else
		chan->rx_end = lost ? (tcpx_status)lost : TCPX_ERR_PEER_CLOSED;
	return chan->rx_end;
}

static tcpx_status tcp_recv(struct net_chan *base, const struct iovec *iov, int niov,
			    size_t *out_bytes)
{
	struct tcp_chan *chan = (struct tcp_chan *)base;
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)niov};
	ssize_t n;

	law_free("tcp_recv");
	if (chan->rx_end)
		return chan->rx_end;
	if (atomic_load_explicit(&chan->down, memory_order_acquire))
		return tcp_eof(chan); /* bytes in the receive queue are discarded */
	do
		n = recvmsg(chan->fd, &msg, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return tcp_failed(chan, errno, &chan->rx_end);
	/* Another thread may have called shutdown during recvmsg. The peer then sees the end of
	 * this channel (tcp_ended) and may have reused memory that it was still sending, so the
	 * received bytes are not valid. */
	if (n == 0 || atomic_load_explicit(&chan->down, memory_order_acquire))
		return tcp_eof(chan);
	*out_bytes = (size_t)n;
	return TCPX_OK;
}

static int tcp_arm(struct net_chan *base, int want_recv, int want_send, uint32_t *out_events)
{
	struct tcp_chan *chan = (struct tcp_chan *)base;

	/* The readiness of sockets is level-triggered, so the caller may sleep without a second
	 * check, except after tcp_shutdown(). */
	*out_events = (want_recv > 0 ? EPOLLIN : 0u) | (want_send > 0 ? EPOLLOUT : 0u);
	return atomic_load_explicit(&chan->down, memory_order_acquire);
}

static int tcp_fd(const struct net_chan *base)
{
	return ((const struct tcp_chan *)base)->fd;
}

static void tcp_recv_mark(struct net_chan *base, size_t bytes)
{
	struct tcp_chan *chan = (struct tcp_chan *)base;
	int low;

	law_free("tcp_recv_mark");
	if (bytes < 1)
		bytes = 1;
	if (bytes > NET_CALL_BYTES)
		bytes = NET_CALL_BYTES;
	if (bytes == chan->mark)
		return;
	low = (int)bytes;
	if (!setsockopt(chan->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)))
		chan->mark = bytes;
}

static void tcp_shutdown(struct net_chan *base)
{
	struct tcp_chan *chan = (struct tcp_chan *)base;

	law_free("tcp_shutdown");
	if (!atomic_exchange(&chan->down, 1))
		shutdown(chan->fd, SHUT_RDWR);
}

/* See net_zerocopy_ops.intact. After a reset the receive queue may still contain earlier bytes.
 * If the peer is on this host, these bytes lie in the peer's pages, which the peer may have
 * changed. */
static int tcp_intact(const struct net_chan *base)
{
	struct pollfd pfd = {.fd = ((const struct tcp_chan *)base)->fd};

	return poll(&pfd, 1, 0) <= 0;
}

/* See net_zerocopy_ops.ended. Returns whether the FIN or the reset of the peer has arrived. A FIN
 * comes only after the peer has called shutdown or its process has ended, and the peer receives no
 * bytes after that. */
static int tcp_ended(const struct net_chan *base)
{
	/* TCP_TIME_WAIT of the kernel; CLOSE, CLOSE_WAIT, LAST_ACK and CLOSING are larger */
	enum { TIME_WAIT = 6 };
	struct tcp_info info = {0};
	socklen_t len = sizeof(info.tcpi_state);
	int fd = ((const struct tcp_chan *)base)->fd;

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) || info.tcpi_state >= TIME_WAIT;
}

/* See net_zerocopy_ops.purge. Connecting to AF_UNSPEC resets the connection. If that fails, the
 * socket is set up so that close resets it. */
static void tcp_purge(struct net_chan *base)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	struct tcp_chan *chan = (struct tcp_chan *)base;

	tcp_pages_close(&chan->pages);
	if (connect(chan->fd, &nobody, sizeof(nobody)))
		(void)sys_sock_reset_on_close(chan->fd);
}

static void tcp_close(struct net_chan *base)
{
	struct tcp_chan *chan = (struct tcp_chan *)base;

	law_free("tcp_close");
	tcp_pages_close(&chan->pages);
	sys_fd_close(chan->fd);
	free(chan);
}

static void tcp_info_get(const struct net_chan *base, struct net_chan_info *out_info)
{
	const struct tcp_chan *chan = (const struct tcp_chan *)base;
	struct tcp_info info;
	socklen_t len = sizeof(info);
	int queued = 0;

	law_free("tcp_info_get");
	memset(out_info, 0, sizeof(*out_info));
	memset(&info, 0, sizeof(info));
	if (!getsockopt(chan->fd, IPPROTO_TCP, TCP_INFO, &info, &len)) {
		out_info->busy_ns = info.tcpi_busy_time * 1000;
		out_info->rwnd_limited_ns = info.tcpi_rwnd_limited * 1000;
		out_info->sndbuf_limited_ns = info.tcpi_sndbuf_limited * 1000;
		out_info->retransmits = info.tcpi_total_retrans;
		out_info->rtt_ns = (uint64_t)info.tcpi_rtt * 1000;
		out_info->last_ack_ms = info.tcpi_last_ack_recv;
		out_info->acked_bytes = info.tcpi_bytes_acked;
		out_info->segment_bytes = info.tcpi_snd_mss;
		out_info->timeouts = info.tcpi_retransmits;
		out_info->last_send_ms = info.tcpi_last_data_sent;
	}
	if (!ioctl(chan->fd, SIOCOUTQ, &queued) && queued > 0)
		out_info->unacked_bytes = (uint64_t)queued;
	len = sizeof(out_info->congestion) - 1;
	if (getsockopt(chan->fd, IPPROTO_TCP, TCP_CONGESTION, out_info->congestion, &len))
		out_info->congestion[0] = '\0';
}

static const struct net_zerocopy_ops tcp_zerocopy = {
	.send_held = tcp_send_held,
	.intact = tcp_intact,
	.ended = tcp_ended,
	.purge = tcp_purge,
};

static const struct net_ops tcp_ops = {
	.name = "tcp",
	.send = tcp_send,
	.recv = tcp_recv,
	.arm = tcp_arm,
	.fd = tcp_fd,
	.recv_mark = tcp_recv_mark,
	.shutdown = tcp_shutdown,
	.close = tcp_close,
	.info = tcp_info_get,
	.trim = net_none_trim,
	.zerocopy = &tcp_zerocopy,
};

static tcpx_status tcp_adopt(int fd, struct net_chan **out_chan)
{
	struct tcp_chan *chan = calloc(1, sizeof(*chan));

	if (!chan)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "tcp channel of %zu bytes", sizeof(*chan));
	chan->base.ops = &tcp_ops;
	chan->fd = fd;
	chan->mark = 1;
	tcp_pages_init(&chan->pages);
	*out_chan = &chan->base;
	return TCPX_OK;
}

const struct transport_ops transport_tcp = {
	.name = "tcp",
	.adopt = tcp_adopt,
};
