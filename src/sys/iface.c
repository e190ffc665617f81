/* SPDX-License-Identifier: Apache-2.0 */
/* Interface addresses by getifaddrs, and the expansion of bind lists. */
#include "sys/iface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "sys/addr.h"

#define LOWER_UP (1u << 16) /* IFF_LOWER_UP, which <net/if.h> lacks */

static unsigned prefix_bits(const struct sockaddr *mask)
{
	const uint8_t *bits;
	unsigned len, count = 0;

	if (!mask)
		return 128;
	if (mask->sa_family == AF_INET) {
		bits = (const uint8_t *)&((const struct sockaddr_in *)mask)->sin_addr;
		len = 4;
	} else {
		bits = (const uint8_t *)&((const struct sockaddr_in6 *)mask)->sin6_addr;
		len = 16;
	}
	for (unsigned i = 0; i < len; i++)
		count += (unsigned)__builtin_popcount(bits[i]);
	return count;
}

static int is_address(const struct ifaddrs *pos)
{
	int family = pos->ifa_addr ? pos->ifa_addr->sa_family : AF_UNSPEC;

	return (family == AF_INET || family == AF_INET6) && (pos->ifa_flags & IFF_UP);
}

static void take_address(const struct ifaddrs *pos, struct sys_iface *out)
{
	memcpy(&out->addr, pos->ifa_addr,
	       pos->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						   : sizeof(struct sockaddr_in6));
	sys_addr_set_port(&out->addr, 0);
	snprintf(out->name, sizeof(out->name), "%s", pos->ifa_name);
	out->prefix = prefix_bits(pos->ifa_netmask);
	out->loopback = (pos->ifa_flags & IFF_LOOPBACK) != 0;
	out->carrier = (pos->ifa_flags & LOWER_UP) != 0;
}

tcpx_status sys_iface_list(struct sys_iface **out_ifaces, unsigned *out_count)
{
	struct ifaddrs *all, *pos;
	struct sys_iface *ifaces;
	unsigned count = 0;

	if (getifaddrs(&all))
		return error_set(errno == ENOMEM   ? TCPX_ERR_NO_MEMORY
				 : errno == EMFILE ? TCPX_ERR_NO_DESCRIPTORS
						   : TCPX_ERR_SYSTEM,
				 errno, "cannot list the network interfaces");
	for (pos = all; pos; pos = pos->ifa_next)
		count += (unsigned)is_address(pos);
	ifaces = calloc(count ? count : 1, sizeof(*ifaces));
	if (!ifaces) {
		freeifaddrs(all);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for %u interface addresses",
				 count);
	}
	count = 0;
	for (pos = all; pos; pos = pos->ifa_next)
		if (is_address(pos))
			take_address(pos, &ifaces[count++]);
	freeifaddrs(all);
	*out_ifaces = ifaces;
	*out_count = count;
	return TCPX_OK;
}

unsigned sys_iface_index(const struct sockaddr_storage *addr)
{
	struct sys_iface *ifaces;
	unsigned count, index = 0;

	if (sys_iface_list(&ifaces, &count) != TCPX_OK)
		return 0;
	for (unsigned i = 0; i < count && !index; i++)
		if (sys_addr_same_host(&ifaces[i].addr, addr))
			index = if_nametoindex(ifaces[i].name);
	free(ifaces);
	return index;
}

int sys_iface_carrier(const struct sockaddr_storage *addr)
{
	struct sys_iface *ifaces;
	unsigned count;
	int carrier = 0;

	if (sys_iface_list(&ifaces, &count) != TCPX_OK)
		return 1;
	for (unsigned i = 0; i < count; i++)
		if (sys_addr_same_host(&ifaces[i].addr, addr))
			carrier |= ifaces[i].carrier;
	free(ifaces);
	return carrier;
}

int sys_iface_direct(const struct sys_iface *iface, const struct sockaddr_storage *remote)
{
	const struct sockaddr_in6 *local6 = (const struct sockaddr_in6 *)&iface->addr;
	const struct sockaddr_in6 *remote6 = (const struct sockaddr_in6 *)remote;

	if (!sys_addr_same_subnet(&iface->addr, remote, iface->prefix))
		return 0;
	/* Every interface has the link-local subnet; only the scope tells them apart. */
	if (sys_addr_is_link_local(remote) && remote6->sin6_scope_id)
		return remote6->sin6_scope_id == local6->sin6_scope_id;
	return 1;
}

/* What expand() works on. */
struct expansion {
	struct sys_iface *ifaces;
	unsigned niface;
	struct sockaddr_storage *out;
	unsigned max, count;
};

static tcpx_status add(struct expansion *e, const struct sockaddr_storage *addr)
{
	for (unsigned i = 0; i < e->count; i++)
		if (sys_addr_same_host(&e->out[i], addr))
			return TCPX_OK;
	if (e->count == e->max) {
		error_set(TCPX_ERR_LIMIT, 0, "more than %u addresses to bind to", e->max);
		return error_next("name fewer interfaces or addresses");
	}
	e->out[e->count++] = *addr;
	return TCPX_OK;
}

static void name_choices(const struct expansion *e)
{
	char text[140] = "", addr[SYS_ADDR_TEXT];
	size_t len = 0;

	for (unsigned i = 0; i < e->niface; i++) {
		const struct sys_iface *iface = &e->ifaces[i];
		int put;

		if (sys_addr_is_link_local(&iface->addr))
			continue;
		sys_addr_host_text(&iface->addr, addr);
		put = snprintf(text + len, sizeof(text) - len, "%s%s %s", len ? ", " : "",
			       iface->name, addr);
		if (put < 0 || (size_t)put >= sizeof(text) - len) {
			text[len] = '\0';
			break;
		}
		len += (size_t)put;
	}
	if (len)
		error_next("use one of: %s", text);
	else
		error_next("bring an interface up and give it an address");
}

static tcpx_status add_interface(struct expansion *e, const char *name)
{
	const struct sys_iface *first4 = NULL, *first6 = NULL, *link6 = NULL;
	tcpx_status status = TCPX_OK;

	for (unsigned i = 0; i < e->niface; i++) {
		const struct sys_iface *iface = &e->ifaces[i];

		if (strcmp(iface->name, name))
			continue;
		if (iface->addr.ss_family == AF_INET)
			first4 = first4 ? first4 : iface;
		else if (sys_addr_is_link_local(&iface->addr))
			link6 = link6 ? link6 : iface;
		else
			first6 = first6 ? first6 : iface;
	}
	if (!first4 && !first6)
		first6 = link6;
	if (!first4 && !first6) {
		error_set(TCPX_ERR_ADDRESS, 0, "interface %.32s is down or has no address", name);
		name_choices(e);
		return TCPX_ERR_ADDRESS;
	}
	if (first4)
		status = add(e, &first4->addr);
	if (status == TCPX_OK && first6)
		status = add(e, &first6->addr);
	return status;
}

/* Whether the address is one of ours; a link-local one written without a scope gets it. */
static int is_ours(const struct expansion *e, struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;

	if (sys_addr_is_any(addr) || (addr->ss_family == AF_INET && sys_addr_is_loopback(addr)))
		return 1;
	for (unsigned i = 0; i < e->niface; i++) {
		const struct sockaddr_storage *ours = &e->ifaces[i].addr;

		if (addr->ss_family != ours->ss_family || !sys_addr_same_subnet(addr, ours, 128))
			continue;
		if (sys_addr_is_link_local(addr)) {
			uint32_t scope = ((const struct sockaddr_in6 *)ours)->sin6_scope_id;

			if (in6->sin6_scope_id && in6->sin6_scope_id != scope)
				continue;
			in6->sin6_scope_id = scope;
		}
		return 1;
	}
	return 0;
}

/* What container engines and hypervisors name their bridges and the ends of their cables. */
static int is_container(const char *name)
{
	static const char *const beginnings[] = {
		"docker", "br-",  "veth", "cni",  "flannel",	  "cali",   "cilium", "lxc",  "lxd",
		"virbr",  "vnet", "tunl", "kube", "nodelocaldns", "podman", "weave",  "dummy"};

	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
		if (!strncmp(name, beginnings[i], strlen(beginnings[i])))
			return 1;
	return 0;
}

/* Mb/s; 0: it does not say. */
static long speed_of(const char *name)
{
	char path[PATH_MAX], text[32] = "";
	long speed;
	FILE *file;

	snprintf(path, sizeof(path), "%s/class/net/%s/speed", config_text(CONFIG_SYSFS), name);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	speed = strtol(text, NULL, 10);
	return speed > 0 ? speed : 0;
}

static int is_candidate(const struct sys_iface *iface)
{
	return !iface->loopback && iface->carrier && !is_container(iface->name) &&
	       !sys_addr_is_link_local(&iface->addr);
}

static tcpx_status add_auto(struct expansion *e)
{
	struct sockaddr_storage loopback;
	long fastest = 0, speed;
	tcpx_status status = TCPX_OK;

	for (unsigned i = 0; i < e->niface; i++)
		if (is_candidate(&e->ifaces[i]) && (speed = speed_of(e->ifaces[i].name)) > fastest)
			fastest = speed;
	for (unsigned i = 0; i < e->niface && status == TCPX_OK && e->count < e->max; i++) {
		const struct sys_iface *iface = &e->ifaces[i];
		int again = 0;

		for (unsigned k = 0; k < i; k++)
			again |= is_candidate(&e->ifaces[k]) &&
				 !strcmp(e->ifaces[k].name, iface->name);
		if (!is_candidate(iface) || again)
			continue;
		speed = speed_of(iface->name);
		if (!speed || speed * 2 >= fastest)
			status = add(e, &iface->addr);
	}
	if (status == TCPX_OK && !e->count) {
		LOG_INFO("no interface that leads to other hosts: loopback alone");
		status = sys_addr_parse("127.0.0.1", 0, &loopback);
		if (status == TCPX_OK)
			status = add(e, &loopback);
	}
	return status;
}

static tcpx_status add_entry(struct expansion *e, const char *text)
{
	struct sockaddr_storage addr;

	if (!*text) {
		error_set(TCPX_ERR_INVALID, 0, "empty entry in the list of addresses to bind to");
		return error_next("write it as IF or ADDRESS, with commas between");
	}
	if (strcmp(text, "auto") == 0)
		return add_auto(e);
	if (strcmp(text, "localhost") == 0)
		text = "127.0.0.1";
	if (sys_addr_parse(text, 0, &addr) == TCPX_OK) {
		if (is_ours(e, &addr))
			return add(e, &addr);
		error_set(TCPX_ERR_ADDRESS, 0, "%s is no address of this machine", text);
		name_choices(e);
		return TCPX_ERR_ADDRESS;
	}
	if (if_nametoindex(text))
		return add_interface(e, text);
	error_set(TCPX_ERR_ADDRESS, 0, "%s is no interface and no address", text);
	name_choices(e);
	return TCPX_ERR_ADDRESS;
}

tcpx_status sys_iface_expand(const char *list, struct sockaddr_storage *out_addrs, unsigned max,
			     unsigned *out_count)
{
	struct expansion e = {.out = out_addrs, .max = max};
	tcpx_status status = sys_iface_list(&e.ifaces, &e.niface);
	char text[SYS_ADDR_TEXT];

	while (status == TCPX_OK) {
		size_t len = strcspn(list, ",");

		if (len >= sizeof(text)) {
			status = error_set(TCPX_ERR_INVALID, 0,
					   "%.64s... is no interface and no address", list);
			break;
		}
		memcpy(text, list, len);
		text[len] = '\0';
		status = add_entry(&e, text);
		if (!list[len])
			break;
		list += len + 1;
	}
	free(e.ifaces);
	if (status == TCPX_OK)
		*out_count = e.count;
	return status;
}
