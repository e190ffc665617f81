/* SPDX-License-Identifier: Apache-2.0 */
/* The yardstick of latency and notify: a ping-pong over one plain socket. No libtcpx here. */
#ifndef TOOLS_CEILING_PING_H
#define TOOLS_CEILING_PING_H

#include <stddef.h>

enum ceiling_ping { CEILING_NO_PING = 0, CEILING_PING_BLOCKING = 1, CEILING_PING_SPINNING = 2 };

#define CEILING_PING_MAX (64u << 10) /* largest message: two fit in the buffers of a socket */

/* Sends every message back until the other end closes. */
void ceiling_ping_answer(int fd, void *buf, size_t len, enum ceiling_ping how);

/* Measures the median of half a round trip in seconds, after a warm-up. Returns 0, or -1 with
 * errno. */
int ceiling_ping_measure(int fd, void *buf, size_t len, enum ceiling_ping how, double *out_half);

#endif
