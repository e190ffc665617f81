/* SPDX-License-Identifier: Apache-2.0 */
/* Sends bytes to a socket without a copy: the socket's queue references the pages. */
#ifndef NET_TCP_PAGES_H
#define NET_TCP_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define TCP_PAGES_MIN (32u << 10) /* smaller pieces are cheaper to copy */

/* Pages of the caller go into a pipe, from which the socket takes them. Pages for which the socket
 * has no room stay in the pipe and are the next bytes of the stream. tx owner only. */
struct tcp_pages {
	int fd[2];	/* the pipe; -1: not made yet */
	size_t filled;	/* bytes in the pipe */
	int impossible; /* 1: it does not work on this system, so everything is copied */
	/* errno that followed the bytes of the last call, or 0; the caller clears it */
	int err;
};

void tcp_pages_init(struct tcp_pages *pages);
void tcp_pages_close(struct tcp_pages *pages);

/* Sends the content of the pipe to the socket; more: further bytes follow at once. Returns the
 * number of bytes, or -1 and errno as send does; 0: nothing was sent, the pipe is closed, and
 * impossible is set. */
long tcp_pages_drain(struct tcp_pages *pages, int sock, int more);

/* Sends the beginning of a piece, with the same results; the pipe may already contain its first
 * bytes. */
long tcp_pages_send(struct tcp_pages *pages, int sock, const struct iovec *piece, int more);

#endif
