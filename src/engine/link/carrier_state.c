/* SPDX-License-Identifier: Apache-2.0 */
/* Checks which interfaces have a carrier. */
#include "engine/link/carrier_state.h"

#include "sys/addr.h"
#include "sys/iface.h"

uint32_t carrier_iface(int fd)
{
	struct sockaddr_storage local = {0};
	socklen_t len = sizeof(local);

	if (getsockname(fd, (struct sockaddr *)&local, &len) ||
	    (local.ss_family != AF_INET && local.ss_family != AF_INET6))
		/* no IP socket: a channel of the local transport, which uses no interface */
		return 0;
	return sys_iface_index(&local);
}

bool carrier_lost(const struct engine_session *session, uint32_t rail)
{
	const struct sockaddr_storage *addr = &session->rails.at[rail % session->rails.count];

	return session->rails.named && session->rails.count > 1 && !sys_addr_is_any(addr) &&
	       !sys_iface_carrier(addr);
}

uint32_t carrier_rail(const struct engine_session *session, uint32_t rail)
{
	for (uint32_t i = 0; i < session->rails.count; i++)
		if (!carrier_lost(session, rail + i))
			return rail + i;
	return rail;
}
