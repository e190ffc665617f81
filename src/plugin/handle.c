/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks plugin handles that come from other processes. A plugin trusts every field of a handle:
 * TCPX follows a pointer in it, uses two of its numbers as array indices, and connects to its two
 * addresses. The layout below is that of TCPX with version 7 of the table. The layouts of other
 * plugins are not known.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "plugin/priv.h"
#include "plugin/setup.h"
#include "sys/addr.h"

#define TCPX_NAME "TCPX"
#define TCPX_VERSION 7
#define TCPX_COUNT_MAX 8 /* most sockets, and most threads, in a valid handle */

/* A handle as TCPX writes it. */
struct tcpx_handle {
	uint8_t data[28]; /* the data address, a sockaddr_in or sockaddr_in6 */
	int32_t port_start, port_count, sockets, threads;
	uint8_t redirect, unused[3];
	uint8_t ctrl[28]; /* the control address; may be empty if `redirect` is 0 */
	uint8_t unused_too[4];
	uint64_t state; /* a pointer of the connecting process; NULL in a new handle */
	uint8_t rest[NCCLNET_HANDLE_BYTES - 88];
};
_Static_assert(offsetof(struct tcpx_handle, sockets) == 36, "as TCPX has it");
_Static_assert(offsetof(struct tcpx_handle, ctrl) == 48, "as TCPX has it");
_Static_assert(offsetof(struct tcpx_handle, state) == 80, "as TCPX has it");
_Static_assert(sizeof(struct tcpx_handle) == NCCLNET_HANDLE_BYTES, "as TCPX has it");

bool net_handle_is_known(const struct net_plugin *plugin)
{
	return plugin->adapter->version == TCPX_VERSION && strstr(plugin->name, TCPX_NAME);
}

static tcpx_status check_addr(const uint8_t bytes[28], const char *which, bool same_host)
{
	struct sockaddr_storage addr = {0};
	char text[SYS_ADDR_TEXT];
	enum sys_scope scope;

	memcpy(&addr, bytes, sizeof(struct sockaddr_in6));
	if (addr.ss_family != AF_INET && addr.ss_family != AF_INET6)
		return error_set(
			TCPX_ERR_PROTOCOL, 0,
			"the peer's plugin handle has a %s address of family %u, not IPv4 or IPv6",
			which, addr.ss_family);
	scope = sys_addr_scope(&addr);
	if (!sys_addr_port(&addr) ||
	    !(scope == SYS_SCOPE_WIDE || (scope == SYS_SCOPE_LOOPBACK && same_host)))
		return error_set(TCPX_ERR_PROTOCOL, 0,
				 "the peer's plugin handle has the %s address %s, which is not the "
				 "address of another host",
				 which, sys_addr_text(&addr, text));
	return TCPX_OK;
}

/* Checks the fields of a TCPX handle, and zeroes the pointer and the bytes that have no known
 * meaning. */
static tcpx_status check_tcpx(struct tcpx_handle *handle, bool same_host)
{
	sa_family_t family;
	tcpx_status status;

	if (handle->sockets < 1 || handle->sockets > TCPX_COUNT_MAX || handle->threads < 1 ||
	    handle->threads > TCPX_COUNT_MAX)
		return error_set(TCPX_ERR_PROTOCOL, 0,
				 "the peer's plugin handle has %d sockets and %d threads; 1 to %d "
				 "of each are valid",
				 handle->sockets, handle->threads, TCPX_COUNT_MAX);
	if (handle->port_start < -1 || handle->port_start > UINT16_MAX || handle->port_count < -1 ||
	    handle->port_count > UINT16_MAX || handle->redirect > 1)
		return error_set(TCPX_ERR_PROTOCOL, 0,
				 "the peer's plugin handle has the invalid range of %d ports from "
				 "port %d",
				 handle->port_count, handle->port_start);
	status = check_addr(handle->data, "data", same_host);
	memcpy(&family, handle->ctrl, sizeof(family));
	if (status == TCPX_OK && (family || handle->redirect))
		status = check_addr(handle->ctrl, "control", same_host);
	handle->state = 0;
	memset(handle->unused, 0, sizeof(handle->unused));
	memset(handle->unused_too, 0, sizeof(handle->unused_too));
	memset(handle->rest, 0, sizeof(handle->rest));
	return status;
}

tcpx_status net_handle_check(const struct net_plugin *plugin, bool trusted, bool same_host,
			     uint8_t handle[NCCLNET_HANDLE_BYTES])
{
	struct tcpx_handle tcpx;
	tcpx_status status;

	if (!net_handle_is_known(plugin))
		return trusted ? TCPX_OK
			       : error_set(
					 TCPX_ERR_AUTH, 0,
					 "what peers send for plugin %.32s (v%d) cannot be "
					 "checked: let peers prove a key file (TCPX_KEY_FILE), or "
					 "set TCPX_PLUGIN_TRUST_PEERS=1 where each may be trusted",
					 plugin->name, plugin->adapter->version);
	memcpy(&tcpx, handle, sizeof(tcpx));
	status = check_tcpx(&tcpx, same_host);
	if (status == TCPX_OK)
		memcpy(handle, &tcpx, sizeof(tcpx));
	return status;
}
