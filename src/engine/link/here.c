/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether an address belongs to this host. */
#include "engine/link/here.h"

#include <stdlib.h>

#include "sys/addr.h"

#define ALL_BITS 128

struct here here_now(void)
{
	struct here here = {0};

	if (sys_iface_list(&here.ifaces, &here.count) != TCPX_OK)
		/* With an empty list, only loopback addresses belong to this host, and no address
		 * is directly reachable. */
		here.count = 0;
	return here;
}

void here_free(struct here *here)
{
	free(here->ifaces);
}

bool here_is(const struct here *here, const struct sockaddr_storage *addr)
{
	if (sys_addr_is_loopback(addr))
		return true;
	for (unsigned i = 0; i < here->count; i++)
		if (sys_addr_same_subnet(&here->ifaces[i].addr, addr, ALL_BITS))
			return true;
	return false;
}

bool here_is_direct(const struct here *here, const struct sockaddr_storage *local,
		    const struct sockaddr_storage *addr)
{
	for (unsigned i = 0; i < here->count; i++)
		if (sys_addr_same_host(&here->ifaces[i].addr, local) &&
		    sys_iface_direct(&here->ifaces[i], addr))
			return true;
	return false;
}

bool here_now_is(const struct sockaddr_storage *addr)
{
	struct here here = here_now();
	bool is = here_is(&here, addr);

	here_free(&here);
	return is;
}
