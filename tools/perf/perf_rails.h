/* SPDX-License-Identifier: Apache-2.0 */
/* Local interfaces with a route to the other end, and addresses of the other end that can be
 * reached. */
#ifndef TOOLS_PERF_RAILS_H
#define TOOLS_PERF_RAILS_H

#include <sys/socket.h>

#include "perf_client.h"

#define PERF_RAILS_MAX 16
#define PERF_BIND_MAX 1024

/* The bind list for a first connection to a host: NULL (loopback) in *out_bind, or the source
 * addresses of the routes to its addresses, written to buf. ERR_NOT_FOUND; ERR_TIMED_OUT;
 * ERR_CANCELLED (Ctrl-C). */
tcpx_status perf_rails_first(const char *host, int64_t deadline_ns, char *buf, size_t cap,
			     const char **out_bind);

/* The bind list of a server for other hosts if the user names none: the interfaces of "auto",
 * with both families. If "auto" finds only loopback, as between two network namespaces: every
 * interface with a carrier. "": there is none. */
tcpx_status perf_rails_all(char *buf, size_t cap);

/* Writes every local address with a direct route to one of the listed ones ("a.b.c.d:port"
 * lines) as a bind list, or "". Returns their number. */
unsigned perf_rails_direct(const char *addresses, char *buf, size_t cap);

/* The listed addresses that are reached by a direct route or loopback; if there is none, the
 * host of the control link with the first port. At least one, at most PERF_RAILS_MAX. */
tcpx_status perf_rails_reachable(struct perf_client *client, const char *addresses,
				 struct sockaddr_storage *out_addrs, unsigned *out_count);

#endif
