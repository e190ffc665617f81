/* SPDX-License-Identifier: Apache-2.0 */
/* Which local interfaces lead to the other end, and which of its addresses are reached. */
#ifndef TOOLS_PERF_RAILS_H
#define TOOLS_PERF_RAILS_H

#include <sys/socket.h>

#include "perf_client.h"

#define PERF_RAILS_MAX 16
#define PERF_BIND_MAX 1024

/* The bind list for a first connection to a host: NULL (loopback) in *out_bind, or the addresses
 * that the routes to its addresses leave from, written to buf. ERR_NOT_FOUND; ERR_TIMED_OUT;
 * ERR_CANCELLED (Ctrl-C). */
tcpx_status perf_rails_first(const char *host, int64_t deadline_ns, char *buf, size_t cap,
			     const char **out_bind);

/* The bind list for clients on other hosts when the user names none: the interfaces of "auto", with
 * both families; where "auto" finds only loopback, as between two network namespaces, every
 * interface with a carrier. "": there is none. */
tcpx_status perf_rails_all(char *buf, size_t cap);

/* Every local address with a direct route to one of the listed ones ("a.b.c.d:port" lines), as a
 * bind list; "" when there is none. Returns how many. */
unsigned perf_rails_direct(const char *addresses, char *buf, size_t cap);

/* Those of the listed addresses that a direct route or loopback reaches; where none is, the host of
 * the control link with the first port. At least one, at most PERF_RAILS_MAX. */
tcpx_status perf_rails_reachable(struct perf_client *client, const char *addresses,
				 struct sockaddr_storage *out_addrs, unsigned *out_count);

#endif
