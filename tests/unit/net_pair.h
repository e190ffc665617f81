/* SPDX-License-Identifier: Apache-2.0 */
/* Support of the net tests: connected pairs of every transport, and sleeping on a channel. */
#ifndef TESTS_UNIT_NET_PAIR_H
#define TESTS_UNIT_NET_PAIR_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "parts/filter.h"
#include "net/local/local.h"
#include "net/transport.h"

struct pair {
	struct net_chan *a, *b;
};

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* Of a transport that adopts sockets. */
static inline void pair_adopted(const struct transport_ops *transport, struct pair *pair)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int one = 1;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), b;

	MUST(!bind(listener, (struct sockaddr *)&addr, sizeof(addr)) && !listen(listener, 1));
	MUST(!getsockname(listener, (struct sockaddr *)&addr, &len));
	MUST(!connect(a, (struct sockaddr *)&addr, sizeof(addr)));
	b = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	MUST(b >= 0);
	close(listener);
	MUST(!setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	MUST(!setsockopt(b, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	MUST(transport->adopt(a, &pair->a) == TCPX_OK && transport->adopt(b, &pair->b) == TCPX_OK);
}

static inline void pair_tcp(struct pair *pair)
{
	pair_adopted(&transport_tcp, pair);
}

static inline void pair_ring(struct pair *pair, size_t ring_bytes)
{
	MUST(local_pair(ring_bytes, &pair->a, &pair->b) == TCPX_OK);
}

static inline int pair_arrived(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
			       uint32_t epoch, struct net_chan *chan)
{
	(void)nonce;
	(void)channel;
	(void)epoch;
	*(struct net_chan **)arg = chan;
	return 1;
}

static inline int pair_expected(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES])
{
	(void)arg;
	(void)nonce;
	return 1;
}

/* Through listener and dial: two mappings. */
static inline void pair_dialled(struct pair *pair, size_t ring_bytes)
{
	uint8_t nonce[LOCAL_NONCE_BYTES] = {0};
	static const struct transport_listen_ops ops = {.expected = pair_expected,
							.arrived = pair_arrived};
	struct transport_listener *listener = NULL;
	char name[LOCAL_NAME_MAX];
	struct sys_loop loop;

	pair->b = NULL;
	MUST(sys_loop_init(&loop) == TCPX_OK);
	MUST(local_listener_open(&loop, &ops, &pair->b, name, &listener) == TCPX_OK);
	MUST(local_dial(name, nonce, 0, 0, ring_bytes, &pair->a) == TCPX_OK);
	while (!pair->b)
		sys_loop_round(&loop, -1);
	local_listener_close(listener);
	sys_loop_fini(&loop);
}

static inline void pair_dial_ended(void *arg, tcpx_status status, struct net_chan *chan)
{
	MUST(status == TCPX_OK);
	*(struct net_chan **)arg = chan;
}

/* Of a transport that is dialled by an offer. */
static inline void pair_offered(const struct transport_ops *transport, struct pair *pair)
{
	static const struct transport_listen_ops ops = {.expected = pair_expected,
							.arrived = pair_arrived};
	uint8_t nonce[TRANSPORT_NONCE_BYTES] = {0};
	char name[TRANSPORT_NAME_MAX];
	struct transport_target target = {.name = name, .nonce = nonce, .answers = true};
	struct transport_listener *listener = NULL;
	struct transport_dial *dial = NULL;
	struct sys_loop loop;

	pair->a = pair->b = NULL;
	MUST(sys_loop_init(&loop) == TCPX_OK);
	MUST(transport->listen(&loop, &ops, &pair->b, name, &listener) == TCPX_OK);
	MUST(transport->dial(&loop, &target, pair_dial_ended, &pair->a, &dial, &pair->a) ==
	     TCPX_OK);
	while (!pair->a || !pair->b)
		sys_loop_round(&loop, -1);
	listener->ops->unlisten(listener);
	sys_loop_fini(&loop);
}

static inline void pair_of(const struct transport_ops *transport, struct pair *pair)
{
	if (transport->adopt)
		pair_adopted(transport, pair);
	else
		pair_offered(transport, pair);
}

static inline void pair_filter(struct pair *pair, const char *spec)
{
	MUST(filter_wrap(spec, pair->a, &pair->a) == TCPX_OK);
	MUST(filter_wrap(spec, pair->b, &pair->b) == TCPX_OK);
}

static inline void pair_close(struct pair *pair)
{
	if (pair->a)
		pair->a->ops->close(pair->a);
	if (pair->b)
		pair->b->ops->close(pair->b);
	pair->a = pair->b = NULL;
}

/* Sleeps in an epoll of the caller's own (epfd, made for this channel) until it may try again. */
static inline void chan_sleep(struct net_chan *chan, int epfd, int want_recv, int want_send)
{
	struct epoll_event event = {0};
	uint32_t events = 0;

	if (chan->ops->arm(chan, want_recv, want_send, &events)) {
		sched_yield();
		return;
	}
	event.events = events;
	MUST(!epoll_ctl(epfd, EPOLL_CTL_MOD, chan->ops->fd(chan), &event));
	while (epoll_wait(epfd, &event, 1, -1) < 0)
		MUST(errno == EINTR);
}

static inline int chan_epoll(struct net_chan *chan)
{
	struct epoll_event event = {0};
	int epfd = epoll_create1(EPOLL_CLOEXEC);

	MUST(epfd >= 0 && !epoll_ctl(epfd, EPOLL_CTL_ADD, chan->ops->fd(chan), &event));
	return epfd;
}

/* Everything, sleeping; TCPX_OK or how the channel ended. */
static inline tcpx_status chan_move_all(struct net_chan *chan, int epfd, int to_peer, void *buf,
					size_t len)
{
	while (len) {
		struct iovec iov = {buf, len < NET_CALL_BYTES ? len : NET_CALL_BYTES};
		size_t moved = 0;
		tcpx_status status = to_peer ? chan->ops->send(chan, &iov, 1, &moved)
					     : chan->ops->recv(chan, &iov, 1, &moved);

		if (status == TCPX_IN_PROGRESS) {
			chan_sleep(chan, epfd, !to_peer, to_peer);
			continue;
		}
		if (status)
			return status;
		buf = (char *)buf + moved;
		len -= moved;
	}
	return TCPX_OK;
}

#define PAIR_JUNK 65536u

/* One call of at most PAIR_JUNK bytes, whatever they are. */
static inline tcpx_status try_send(struct net_chan *chan, size_t len)
{
	static uint8_t junk[PAIR_JUNK];
	struct iovec iov = {junk, len};
	size_t moved = 0;

	return chan->ops->send(chan, &iov, 1, &moved);
}

static inline tcpx_status try_recv(struct net_chan *chan, size_t len)
{
	static uint8_t junk[PAIR_JUNK];
	struct iovec iov = {junk, len};
	size_t moved = 0;
	tcpx_status status = chan->ops->recv(chan, &iov, 1, &moved);

	if (!status)
		assert_in_range(moved, 1, len);
	return status;
}

#endif
