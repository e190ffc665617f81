/* SPDX-License-Identifier: Apache-2.0 */
/* Name resolution that ends in time and on Ctrl-C. */
#ifndef TOOLS_PERF_RESOLVE_H
#define TOOLS_PERF_RESOLVE_H

#include <netdb.h>
#include <stdint.h>

#include <tcpx/types.h>

/* Addresses of a host; the caller frees the list. deadline_ns: absolute, 0: 60 s from now.
 * ERR_NOT_FOUND; ERR_TIMED_OUT; ERR_CANCELLED (Ctrl-C); ERR_NO_MEMORY. */
tcpx_status perf_resolve(const char *host, int64_t deadline_ns, struct addrinfo **out_list);

#endif
