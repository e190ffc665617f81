/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to a socket without a copy: the socket's queue holds on to the pages themselves. */
#ifndef NET_TCP_PAGES_H
#define NET_TCP_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define TCP_PAGES_MIN (32u << 10) /* fewer bytes are cheaper copied */

/* The way there is a pipe: pages of the caller go in, the socket takes them out. What it has no
 * room for stays inside, and are the next bytes of the stream. tx owner. */
struct tcp_pages {
	int fd[2];	/* -1: not made yet */
	size_t filled;	/* bytes in the pipe */
	int impossible; /* the system does not let us: everything is copied */
	int err; /* met behind the bytes that the last call says went, taken by the caller; or 0 */
};

void tcp_pages_init(struct tcp_pages *pages);
void tcp_pages_close(struct tcp_pages *pages);

/* What the pipe holds goes to the socket; more: further bytes follow at once. Bytes that went, or
 * -1 and errno as of a send; 0: the pipe is gone, nothing went, it is impossible from now on. */
long tcp_pages_drain(struct tcp_pages *pages, int sock, int more);

/* The same for the first bytes of the piece, of which the pipe may hold the first ones already. */
long tcp_pages_send(struct tcp_pages *pages, int sock, const struct iovec *piece, int more);

#endif
