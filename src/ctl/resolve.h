/* SPDX-License-Identifier: Apache-2.0 */
/* A limit of the name resolution, and a hook for tests. */
#ifndef CTL_RESOLVE_H
#define CTL_RESOLVE_H

#include <netdb.h>

/* If this many look-ups hang after their deadline, further names are refused until one of them
 * ends. Look-ups within their deadline do not count. */
#define CTL_RESOLVE_STUCK_MAX 16

typedef int (*ctl_lookup_fn)(const char *host, const char *service, const struct addrinfo *hints,
			     struct addrinfo **out_list);

/* Replaces the look-up function for tests; NULL restores getaddrinfo(). The caller must make sure
 * that no look-up whose result is needed is running. */
void ctl_resolve_set_lookup(ctl_lookup_fn fn);

#endif
