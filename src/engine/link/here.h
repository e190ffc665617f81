/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether an address belongs to this host. May be called by any thread. */
#ifndef ENGINE_LINK_HERE_H
#define ENGINE_LINK_HERE_H

#include <stdbool.h>
#include <sys/socket.h>

#include "sys/iface.h"

/* The addresses of this host at one moment; freed by here_free(). */
struct here {
	struct sys_iface *ifaces;
	unsigned count;
};

/* Returns the host's present addresses. The list is empty if they cannot be read. */
struct here here_now(void);
void here_free(struct here *here);
/* Returns whether the address is one of `here` or a loopback address. */
bool here_is(const struct here *here, const struct sockaddr_storage *addr);
/* Returns whether an interface of `here` has the address `local` and `addr` is in the interface's
 * subnet, so that packets need no router. */
bool here_is_direct(const struct here *here, const struct sockaddr_storage *local,
		    const struct sockaddr_storage *addr);
/* Returns whether the address belongs to this host at present. */
bool here_now_is(const struct sockaddr_storage *addr);

#endif
