/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the interface addresses by getifaddrs, and finds interfaces by name or address. */
#include "sys/iface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/addr.h"
#include "sys/fd.h"

#define ALT_NAME_MAX 128    /* most bytes of an alternative name with its NUL, from the kernel */
#define IFLA_ALT_IFNAME_ 53 /* missing in headers before Linux 5.5 */
#define LOWER_UP (1u << 16) /* IFF_LOWER_UP, missing in <net/if.h> */

/* Returns the number of one bits in a netmask, or 128 if there is no mask. */
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

/* Tries if_nametoindex() first, then asks the kernel by netlink. if_nametoindex() finds alternative
 * names only if they have at most 15 bytes. */
unsigned sys_iface_number(const char *name)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg info;
		struct nlattr attr;
		char name[ALT_NAME_MAX];
	} ask = {.head = {.nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST}};
	struct {
		struct nlmsghdr head;
		struct ifinfomsg info;
		char rest[16384];
	} answer;
	size_t len = strlen(name);
	unsigned index = if_nametoindex(name);
	ssize_t got;
	int fd;

	if (index || !len || len >= sizeof(ask.name))
		return index;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return 0;
	memcpy(ask.name, name, len);
	ask.attr = (struct nlattr){.nla_len = (uint16_t)(NLA_HDRLEN + len + 1),
				   .nla_type = IFLA_ALT_IFNAME_};
	ask.head.nlmsg_len =
		(uint32_t)(NLMSG_LENGTH(sizeof(ask.info)) + NLA_ALIGN((size_t)ask.attr.nla_len));
	got = send(fd, &ask, ask.head.nlmsg_len, MSG_NOSIGNAL) < 0
		      ? -1
		      : recv(fd, &answer, sizeof(answer), 0);
	sys_fd_close(fd);
	if (got >= (ssize_t)NLMSG_LENGTH(sizeof(answer.info)) &&
	    answer.head.nlmsg_type == RTM_NEWLINK)
		index = (unsigned)answer.info.ifi_index;
	return index;
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

void sys_iface_complete(struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
	struct sys_iface *ifaces;
	unsigned count;
	uint32_t one = 0;
	int several = 0;

	if (!sys_addr_is_link_local(addr) || in6->sin6_scope_id ||
	    sys_iface_list(&ifaces, &count) != TCPX_OK)
		return;
	for (unsigned i = 0; i < count; i++) {
		uint32_t scope = ((const struct sockaddr_in6 *)&ifaces[i].addr)->sin6_scope_id;

		if (!sys_addr_is_link_local(&ifaces[i].addr) || ifaces[i].loopback)
			continue;
		several |= one && one != scope;
		one = scope;
	}
	free(ifaces);
	if (!several)
		in6->sin6_scope_id = one;
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
	/* Every interface has the link-local subnet, so only the scope id tells which interface an
	 * address belongs to. */
	if (sys_addr_is_link_local(remote) && remote6->sin6_scope_id)
		return remote6->sin6_scope_id == local6->sin6_scope_id;
	return 1;
}
