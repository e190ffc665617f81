/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes descriptors between two processes of this host as messages over a unix socket. A process
 * that needs a descriptor of another process connects to that process's listener and asks for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/local/local_priv.h"
#include "sys/fd.h"
#include "sys/fd_pass.h"

#define FETCH_NS (2 * CLOCK_S_NS) /* how long the answer may take */

struct local_fetch {
	struct sys_watch watch;
	struct sys_timer timer;
	struct sys_loop *loop;
	local_fetched_fn fetched;
	void *arg;
};

tcpx_status local_pass(int sock, const void *bytes, size_t n, int fd)
{
	/* The socket is new, so its send buffer has room for the whole message. */
	if (sys_fd_pass(sock, bytes, n, &fd, 1))
		return error_set(errno == EPIPE || errno == ECONNRESET ? TCPX_ERR_PEER_RESET
								       : TCPX_ERR_SYSTEM,
				 errno, "descriptor for another process");
	return TCPX_OK;
}

ssize_t local_pass_recv(int sock, void *bytes, size_t n, int *inout_fd)
{
	uint32_t count;
	int fd;
	ssize_t got = sys_fd_pass_recv(sock, bytes, n, &fd, 1, &count);

	if (count && *inout_fd < 0)
		*inout_fd = fd;
	else if (count)
		sys_fd_close(fd);
	return got;
}

void local_fetch_cancel(struct local_fetch *fetch)
{
	sys_timer_del(fetch->loop, &fetch->timer);
	sys_watch_del(fetch->loop, &fetch->watch);
	sys_fd_close(fetch->watch.fd);
	free(fetch);
}

/* Frees the fetch and calls its `fetched`. The callee owns fd, which is -1 if `status` is an
 * error. */
static void fetch_end(struct local_fetch *fetch, tcpx_status status, int fd)
{
	local_fetched_fn fetched = fetch->fetched;
	void *arg = fetch->arg;

	local_fetch_cancel(fetch);
	fetched(arg, status, fd);
}

static void fetch_ready(struct sys_watch *watch, uint32_t events)
{
	struct local_fetch *fetch = LIST_ENTRY(watch, struct local_fetch, watch);
	tcpx_status status = TCPX_OK;
	char byte;
	int fd = -1;
	ssize_t n = local_pass_recv(watch->fd, &byte, 1, &fd);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (fd < 0)
		status = error_set(TCPX_ERR_AGAIN, n < 0 ? errno : 0,
				   "the peer did not pass a descriptor");
	fetch_end(fetch, status, fd);
}

static void fetch_late(struct sys_timer *timer, int64_t now_ns)
{
	struct local_fetch *fetch = LIST_ENTRY(timer, struct local_fetch, timer);

	(void)now_ns;
	fetch_end(fetch, error_set(TCPX_ERR_AGAIN, 0, "the peer passed no descriptor in time"), -1);
}

tcpx_status local_fetch_start(struct sys_loop *loop, const char *name,
			      const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number,
			      local_fetched_fn fetched, void *arg, struct local_fetch **out_fetch)
{
	struct local_hello hello = {
		.magic = LOCAL_FETCH_MAGIC, .version = LOCAL_VERSION, .ring_bytes = number};
	struct local_fetch *fetch = calloc(1, sizeof(*fetch));
	tcpx_status status;
	int fd = -1;

	if (!fetch)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "fetch of a descriptor");
	memcpy(hello.nonce, nonce, sizeof(hello.nonce));
	*fetch = (struct local_fetch){.loop = loop, .fetched = fetched, .arg = arg};
	fetch->timer.fn = fetch_late;
	list_init(&fetch->timer.node);
	status = local_dial_socket(name, &fd);
	if (status == TCPX_OK &&
	    send(fd, &hello, sizeof(hello), MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(hello))
		status = error_set(TCPX_ERR_AGAIN, errno, "the peer did not accept the request");
	explicit_bzero(&hello, sizeof(hello));
	fetch->watch = (struct sys_watch){.fd = fd, .events = EPOLLIN, .fn = fetch_ready};
	if (status == TCPX_OK)
		status = sys_watch_add(loop, &fetch->watch);
	if (status != TCPX_OK) {
		if (fd >= 0)
			sys_fd_close(fd);
		free(fetch);
		return status;
	}
	sys_timer_set(loop, &fetch->timer, clock_now_ns() + FETCH_NS);
	*out_fetch = fetch;
	return TCPX_OK;
}
