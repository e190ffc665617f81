/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of connection infos. */
#include "cli_address.h"

#include <netinet/in.h>
#include <string.h>

#include "sys/addr.h"

void cli_address(const struct wire_address *from, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (from->family == 4) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, from->bytes, 4);
	} else {
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_addr, from->bytes, 16);
		v6->sin6_scope_id = from->scope;
	}
	sys_addr_set_port(out, from->port);
}
