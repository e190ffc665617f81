/* SPDX-License-Identifier: Apache-2.0 */
/* Which local interfaces lead to the other end. */
#include "perf_rails.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "perf_host.h"
#include "perf_resolve.h"
#include "sys/addr.h"
#include "sys/iface.h"
#include "sys/sock.h"

/* Whether the address is in the comma list. */
static int perf_rails_listed(const char *list, const char *address)
{
	size_t len = strlen(address);

	for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
		if (!strncmp(at, address, len) && (at[len] == ',' || !at[len]))
			return 1;
	return 0;
}

tcpx_status perf_rails_first(const char *host, int64_t deadline_ns, char *buf, size_t cap,
			     const char **out_bind)
{
	struct addrinfo *list, *ai;
	char text[SYS_ADDR_TEXT];
	size_t used = 0;
	tcpx_status status = perf_resolve(host, deadline_ns, &list);

	if (status != TCPX_OK)
		return status;
	*out_bind = NULL;
	*buf = '\0';
	for (ai = list; ai; ai = ai->ai_next) {
		struct sockaddr_storage remote = {0}, local = {0};

		memcpy(&remote, ai->ai_addr, ai->ai_addrlen);
		sys_iface_complete(&remote);
		if (sys_addr_is_loopback(&remote))
			break;
		if (sys_sock_source(&remote, NULL, &local) || sys_addr_is_loopback(&local))
			continue;
		sys_addr_host_text(&local, text);
		if (perf_rails_listed(buf, text) || used + strlen(text) + 2 > cap)
			continue;
		used += (size_t)snprintf(buf + used, cap - used, "%s%s", used ? "," : "", text);
		*out_bind = buf;
	}
	if (ai) /* an address of this host: use loopback */
		*out_bind = NULL;
	freeaddrinfo(list);
	return TCPX_OK;
}

/* Whether the interface has one of the addresses; without addresses, whether it has a carrier. */
static int leads_out(const struct sys_iface *iface, const struct sockaddr_storage *addrs,
		     unsigned count)
{
	if (iface->loopback || !count)
		return !iface->loopback && iface->carrier;
	for (unsigned i = 0; i < count; i++)
		if (sys_addr_same_host(&iface->addr, &addrs[i]))
			return 1;
	return 0;
}

tcpx_status perf_rails_all(char *buf, size_t cap)
{
	struct sockaddr_storage chosen[PERF_RAILS_MAX];
	struct sys_iface *ifaces;
	unsigned count, nchosen = 0, found = 0;
	size_t used = 0;
	tcpx_status status = sys_iface_expand("auto", chosen, PERF_RAILS_MAX, &nchosen);

	if (status == TCPX_OK)
		status = sys_iface_list(&ifaces, &count);
	if (status != TCPX_OK)
		return status;
	*buf = 0;
	if (nchosen && sys_addr_is_loopback(&chosen[0]))
		nchosen = 0;
	for (unsigned i = 0; i < count && found < PERF_RAILS_MAX / 2; i++) {
		int skip = !leads_out(&ifaces[i], chosen, nchosen) || used + IF_NAMESIZE + 2 > cap;

		for (unsigned k = 0; k < i; k++)
			skip |= !strcmp(ifaces[k].name, ifaces[i].name) &&
				leads_out(&ifaces[k], chosen, nchosen);
		if (skip)
			continue;
		used += (size_t)snprintf(buf + used, cap - used, "%s%s", found ? "," : "",
					 ifaces[i].name);
		found++;
	}
	free(ifaces);
	return TCPX_OK;
}

/* Parses the next line "address:port"; returns 0 at the end. */
static int next_address(const char **lines, struct sockaddr_storage *out)
{
	char line[SYS_ADDR_TEXT], host[PERF_HOST_MAX];
	unsigned port;

	while (**lines) {
		size_t len = strcspn(*lines, "\n");
		int good = len < sizeof(line);

		snprintf(line, sizeof(line), "%.*s", (int)len, *lines);
		*lines += len + ((*lines)[len] == '\n');
		if (good && !perf_host_split(line, host, &port) &&
		    sys_addr_parse(host, (uint16_t)port, out) == TCPX_OK)
			return 1;
	}
	return 0;
}

unsigned perf_rails_direct(const char *addresses, char *buf, size_t cap)
{
	struct sys_iface *ifaces = NULL;
	unsigned count = 0, found = 0;
	size_t used = 0;

	*buf = 0;
	if (sys_iface_list(&ifaces, &count) != TCPX_OK)
		count = 0;
	for (unsigned i = 0; i < count; i++) {
		struct sockaddr_storage remote;
		const char *lines = addresses;
		char text[SYS_ADDR_TEXT];
		int direct = 0;

		while (!ifaces[i].loopback && !direct && next_address(&lines, &remote))
			direct = sys_iface_direct(&ifaces[i], &remote);
		sys_addr_host_text(&ifaces[i].addr, text);
		if (!direct || used + strlen(text) + 2 > cap)
			continue;
		used += (size_t)snprintf(buf + used, cap - used, "%s%s", found ? "," : "", text);
		found++;
	}
	free(ifaces);
	return found;
}

tcpx_status perf_rails_reachable(struct perf_client *client, const char *addresses,
				 struct sockaddr_storage *out_addrs, unsigned *out_count)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	struct sockaddr_storage addr, control;
	char bind[PERF_BIND_MAX], host[PERF_HOST_MAX];
	const char *lines = addresses;
	unsigned count = 0, port;
	tcpx_status status = tcpx_peer_query(client->session, client->peer, &info);

	if (status != TCPX_OK)
		return status;
	if (perf_host_split(info.address, host, &port) ||
	    sys_addr_parse(host, 0, &control) != TCPX_OK)
		memset(&control, 0, sizeof(control));
	while (count < PERF_RAILS_MAX && next_address(&lines, &addr)) {
		char line[SYS_ADDR_TEXT];

		sys_addr_text(&addr, line);
		if (sys_addr_same_host(&addr, &control) ||
		    perf_rails_direct(line, bind, sizeof(bind)))
			out_addrs[count++] = addr;
	}
	lines = addresses;
	if (!count && control.ss_family && next_address(&lines, &addr)) {
		sys_addr_set_port(&control, sys_addr_port(&addr));
		out_addrs[count++] = control;
	}
	if (!count)
		return error_set(TCPX_ERR_UNREACHABLE, 0, "ceiling: no address of the other end");
	*out_count = count;
	return TCPX_OK;
}
