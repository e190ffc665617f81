/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of the name resolution for tests. */
#ifndef CTL_RESOLVE_H
#define CTL_RESOLVE_H

#include <netdb.h>

/* If this many look-ups hang after their deadline, names are refused until one of them ends.
 * Look-ups within their deadline do not count. */
#define CTL_RESOLVE_STUCK_MAX 16

typedef int (*ctl_lookup_fn)(const char *host, const char *service, const struct addrinfo *hints,
			     struct addrinfo **out_list);

/* Replaces the look-up function for tests; NULL: getaddrinfo. Must not be called while a look-up
 * runs whose result is needed. */
void ctl_resolve_set_lookup(ctl_lookup_fn fn);

#endif
