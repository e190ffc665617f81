/* SPDX-License-Identifier: Apache-2.0 */
/* What tests replace of the name resolution. */
#ifndef CTL_RESOLVE_H
#define CTL_RESOLVE_H

#include <netdb.h>

/* Look-ups that outlived their deadline and still hang, at most: beyond it names are refused. */
#define CTL_RESOLVE_STUCK_MAX 16

typedef int (*ctl_lookup_fn)(const char *host, const char *service, const struct addrinfo *hints,
			     struct addrinfo **out_list);

/* NULL: getaddrinfo. Not while a look-up runs that matters to the caller. */
void ctl_resolve_set_lookup(ctl_lookup_fn fn);

#endif
