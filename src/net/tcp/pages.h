/* SPDX-License-Identifier: Apache-2.0 */
/* Sends bytes to a socket without a copy: the socket's queue refers to the caller's pages. */
#ifndef NET_TCP_PAGES_H
#define NET_TCP_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define TCP_PAGES_MIN (32u << 10) /* smallest piece that is sent without a copy, in bytes */

/* The caller's pages go into a pipe, and from the pipe to the socket. Pages for which the socket
 * has no room stay in the pipe; they are the next bytes of the stream. Only the tx owner accesses
 * this struct. */
struct tcp_pages {
	int fd[2];	/* the two ends of the pipe; -1 if it is not open */
	size_t filled;	/* bytes in the pipe */
	int impossible; /* 1 if all is copied: pages do not work, or TCPX_TCP_SPLICE is off */
	/* errno of the error that stopped the last call after it had sent some bytes; else 0. The
	 * caller reads and clears this field. */
	int err;
};

void tcp_pages_init(struct tcp_pages *pages);
void tcp_pages_close(struct tcp_pages *pages);

/* Sends the content of the pipe, which must not be empty, to the socket. `more` is not 0 if further
 * bytes follow at once. Returns the number of bytes sent, or -1 with errno, as send does, if none
 * were sent. If splice does not work, closes the pipe, sets `impossible`, and returns the bytes
 * sent until then, which may be 0. */
long tcp_pages_drain(struct tcp_pages *pages, int sock, int more);

/* Sends the first bytes of a piece, some of which may be in the pipe already. `more` and the result
 * are as for tcp_pages_drain. */
long tcp_pages_send(struct tcp_pages *pages, int sock, const struct iovec *piece, int more);

#endif
