/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets: to listen, connect and accept on, and to say a few bytes over during setup. */
#include "emu.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REFUSED_RETRIES 20000 /* a millisecond apart, as there */
#define CANCEL_MS 50	      /* how soon a closed listen comm is noticed in a handshake */

uint64_t emu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void emu_sleep_us(unsigned us)
{
	struct timespec ts = {us / 1000000, (long)(us % 1000000) * 1000};

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

int emu_send_flags(void)
{
	return emu_config.no_sigpipe ? MSG_NOSIGNAL : 0;
}

static socklen_t length_of(const union emu_addr *addr)
{
	return addr->sa.sa_family == AF_INET6 ? sizeof(addr->in6) : sizeof(addr->in);
}

int emu_sock_listen(union emu_addr *addr)
{
	int fd = socket(addr->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	socklen_t length = sizeof(*addr);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &addr->sa, length_of(addr)) || listen(fd, 128) ||
	    getsockname(fd, &addr->sa, &length)) {
		EMU_WARN("TCPXEMU: cannot listen: %s", strerror(errno));
		close(fd);
		return -1;
	}
	return fd;
}

static void no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int emu_sock_connect(const union emu_addr *to, const union emu_addr *from)
{
	int error = 0;

	for (int i = 0; i < REFUSED_RETRIES; i++) {
		int fd = socket(to->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

		if (fd < 0)
			return -1;
		/* The port is chosen at connect: one local address serves any number of peers. */
		setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
		if ((!from || !bind(fd, &from->sa, length_of(from))) &&
		    !connect(fd, &to->sa, length_of(to))) {
			no_delay(fd);
			return fd;
		}
		error = errno;
		close(fd);
		if (error != ECONNREFUSED && error != ETIMEDOUT && error != EINTR)
			break;
		emu_sleep_us(1000);
	}
	EMU_WARN("TCPXEMU: cannot connect: %s", strerror(error));
	return -1;
}

int emu_sock_accept(int listening)
{
	int fd;

	do {
		fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	} while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	if (fd >= 0)
		no_delay(fd);
	return fd;
}

void emu_sock_nonblocking(int fd)
{
	fcntl(fd, F_SETFL, O_NONBLOCK);
}

/* All bytes or none: 0; -1: the peer is gone, or *stop. */
int emu_sock_all(int fd, void *buf, size_t bytes, bool out, const _Atomic bool *stop)
{
	struct pollfd poller = {.fd = fd, .events = out ? POLLOUT : POLLIN};
	uint8_t *at = buf;

	while (bytes) {
		ssize_t done;

		if (stop && atomic_load(stop))
			return -1;
		if (poll(&poller, 1, stop ? CANCEL_MS : -1) == 0)
			continue;
		done = out ? send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
			   : recv(fd, at, bytes, MSG_DONTWAIT);
		if (done == 0 || (done < 0 && errno != EAGAIN && errno != EINTR))
			return -1;
		if (done > 0) {
			at += done;
			bytes -= (size_t)done;
		}
	}
	return 0;
}
