/* SPDX-License-Identifier: Apache-2.0 */
/* Sends bytes to a socket without a copy: the socket's queue refers to the caller's pages. */
#ifndef NET_TCP_PAGES_H
#define NET_TCP_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define TCP_PAGES_MIN (32u << 10) /* smaller pieces are cheaper to copy */

/* Pages of the caller go into a pipe, and from there to the socket. Pages for which the socket has
 * no room stay in the pipe and are the next bytes of the stream. tx owner only. */
struct tcp_pages {
	int fd[2];	/* the pipe; -1: not made yet */
	size_t filled;	/* bytes in the pipe */
	int impossible; /* 1: sending by pages does not work here, so everything is copied */
	/* errno of an error that followed the bytes which the last call returned; 0: none. The
	 * caller reads and clears it */
	int err;
};

void tcp_pages_init(struct tcp_pages *pages);
void tcp_pages_close(struct tcp_pages *pages);

/* Sends the content of the pipe to the socket. more: further bytes follow at once. Returns the
 * number of bytes sent. -1: none, errno as of send. 0: none, because splice does not work here;
 * the pipe is closed, and impossible is set. */
long tcp_pages_drain(struct tcp_pages *pages, int sock, int more);

/* Sends the first bytes of a piece; the pipe may already contain some of them. Results as of
 * tcp_pages_drain. more: further bytes follow at once. */
long tcp_pages_send(struct tcp_pages *pages, int sock, const struct iovec *piece, int more);

#endif
