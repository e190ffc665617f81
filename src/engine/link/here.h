/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an address belongs to this host. Any thread. */
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

/* Reads the addresses now. If that fails, the list is empty. */
struct here here_now(void);
void here_free(struct here *here);
/* Whether the address is one of `here` or a loopback address. */
bool here_is(const struct here *here, const struct sockaddr_storage *addr);
/* Whether an interface of `here` has the address `local` and `addr` is in its subnet, so that
 * packets need no router. */
bool here_is_direct(const struct here *here, const struct sockaddr_storage *local,
		    const struct sockaddr_storage *addr);
/* whether the address belongs to this host now */
bool here_now_is(const struct sockaddr_storage *addr);

#endif
