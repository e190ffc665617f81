/* SPDX-License-Identifier: Apache-2.0 */
/* What tests replace of the name resolution. */
#ifndef CTL_RESOLVE_H
#define CTL_RESOLVE_H

#include <netdb.h>

/* Once so many look-ups have outlived their deadline and still hang, names are refused until one of
 * them ends. Those within their deadline do not count. */
#define CTL_RESOLVE_STUCK_MAX 16

typedef int (*ctl_lookup_fn)(const char *host, const char *service, const struct addrinfo *hints,
			     struct addrinfo **out_list);

/* NULL: getaddrinfo. Not while a look-up runs that matters to the caller. */
void ctl_resolve_set_lookup(ctl_lookup_fn fn);

#endif
