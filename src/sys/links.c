/* SPDX-License-Identifier: Apache-2.0 */
/* Reports changes of network interfaces, which a NETLINK_ROUTE socket delivers. */
#include "sys/links.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/fd.h"
#include "sys/sock.h"

#define LOWER_UP (1u << 16) /* IFF_LOWER_UP, missing in <net/if.h> */
#define READ_BYTES 32768    /* most bytes in a datagram from the kernel */

static void report_link(const struct sys_links *links, const struct nlmsghdr *head)
{
	const struct ifinfomsg *info = NLMSG_DATA(head);
	const struct rtattr *attr = IFLA_RTA(info);
	int left = (int)IFLA_PAYLOAD(head);
	int up = head->nlmsg_type == RTM_NEWLINK && (info->ifi_flags & IFF_UP) &&
		 (info->ifi_flags & LOWER_UP);
	char name[IF_NAMESIZE] = "";

	if (info->ifi_family != AF_UNSPEC || info->ifi_index <= 0)
		return; /* sent by a bridge about one of its ports */
	for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left)) {
		size_t len = RTA_PAYLOAD(attr);

		if (attr->rta_type == IFLA_IFNAME && len && len <= sizeof(name))
			memcpy(name, RTA_DATA(attr), len - 1);
	}
	links->changed(links->arg, (unsigned)info->ifi_index, name, up);
}

void sys_links_read(const struct sys_links *links, const void *messages, size_t len)
{
	const struct nlmsghdr *head = messages;
	int left = (int)len; /* becomes negative if the last message lacks its padding */

	for (; NLMSG_OK(head, (unsigned)(left < 0 ? 0 : left)); head = NLMSG_NEXT(head, left))
		if ((head->nlmsg_type == RTM_NEWLINK || head->nlmsg_type == RTM_DELLINK) &&
		    head->nlmsg_len >= NLMSG_LENGTH(sizeof(struct ifinfomsg)))
			report_link(links, head);
}

/* Asks the kernel for the state of all interfaces. Called after the kernel dropped messages because
 * the socket's buffer was full. */
static void request_all_links(const struct sys_links *links)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg info;
	} ask = {.head = {.nlmsg_len = sizeof(ask),
			  .nlmsg_type = RTM_GETLINK,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};

	if (send(links->watch.fd, &ask, sizeof(ask), MSG_NOSIGNAL) < 0)
		LOG_DEBUG("links: cannot request the interfaces: errno %d", errno);
}

static void on_message(struct sys_watch *watch, uint32_t events)
{
	struct sys_links *links = LIST_ENTRY(watch, struct sys_links, watch);
	_Alignas(struct nlmsghdr) char buf[READ_BYTES];

	(void)events;
	for (;;) {
		struct sockaddr_nl from = {0};
		socklen_t from_len = sizeof(from);
		ssize_t got = recvfrom(watch->fd, buf, sizeof(buf), 0, (struct sockaddr *)&from,
				       &from_len);

		if (got > 0 && !from.nl_pid) /* sent by the kernel, not by a process */
			sys_links_read(links, buf, (size_t)got);
		else if (got < 0 && errno == ENOBUFS)
			request_all_links(links);
		else if (got <= 0 && errno != EINTR)
			return;
	}
}

tcpx_status sys_links_open(struct sys_loop *loop, struct sys_links *links)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
	int fd = SYS_FD_OPEN(
		socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
	tcpx_status status;

	links->loop = loop;
	links->watch = (struct sys_watch){.fd = -1, .events = EPOLLIN, .fn = on_message};
	list_init(&links->watch.node);
	if (fd < 0)
		return error_set(sys_errno_status(errno), errno, "cannot open a netlink socket");
	links->watch.fd = fd;
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		status = error_set(TCPX_ERR_SYSTEM, errno, "cannot subscribe to interface events");
	else
		status = sys_watch_add(loop, &links->watch);
	if (status != TCPX_OK) {
		sys_fd_close(fd);
		links->watch.fd = -1;
	}
	return status;
}

void sys_links_close(struct sys_links *links)
{
	if (links->watch.fd < 0)
		return;
	sys_watch_del(links->loop, &links->watch);
	sys_fd_close(links->watch.fd);
	links->watch.fd = -1;
}
