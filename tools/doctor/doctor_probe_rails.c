/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of addresses of both ends: the route's interface, whether somebody answers, the MTU. */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "doctor_probe.h"
#include "doctor_rules.h"
#include "sys/addr.h"
#include "sys/iface.h"
#include "sys/sock.h"

#define PAIRS_MAX 32
#define ANSWER_NS (1 * CLOCK_S_NS)

struct rail_pair {
	const struct sys_iface *local;
	struct sockaddr_storage remote;
	int fd;
	const char *answer;
	unsigned mtu; /* of the path; 0: not known */
};

struct rails {
	struct rail_pair pairs[PAIRS_MAX];
	unsigned count;
};

/* "10.0.0.1:80" or "[fe80::1%eth0]:80". 0; -1. */
static int parse_address(const char *text, size_t len, struct sockaddr_storage *out)
{
	char host[SYS_ADDR_TEXT], *colon, *start = host;

	if (len >= sizeof(host))
		return -1;
	memcpy(host, text, len);
	host[len] = '\0';
	colon = strrchr(host, ':');
	if (!colon)
		return -1;
	*colon = '\0';
	if (*start == '[') {
		start++;
		start[strcspn(start, "]")] = '\0';
	}
	return sys_addr_parse(start, (uint16_t)atoi(colon + 1), out) == TCPX_OK ? 0 : -1;
}

/* Addresses of one subnet, or both of loopback. */
static void find_pairs(struct rails *rails, const struct sys_iface *ifaces, unsigned count,
		       const char *addresses)
{
	struct sockaddr_storage remote;
	size_t len;

	for (; *addresses; addresses += len + (addresses[len] == '\n')) {
		len = strcspn(addresses, "\n");
		if (parse_address(addresses, len, &remote))
			continue;
		for (unsigned i = 0; i < count && rails->count < PAIRS_MAX; i++)
			if (ifaces[i].loopback == sys_addr_is_loopback(&remote) &&
			    ifaces[i].addr.ss_family == remote.ss_family &&
			    sys_iface_direct(&ifaces[i], &remote))
				rails->pairs[rails->count++] = (struct rail_pair){
					.local = &ifaces[i], .remote = remote, .fd = -1};
	}
}

static const void *ip_of(const struct sockaddr_storage *addr, size_t *out_len)
{
	if (addr->ss_family == AF_INET) {
		*out_len = 4;
		return &((const struct sockaddr_in *)addr)->sin_addr;
	}
	*out_len = 16;
	return &((const struct sockaddr_in6 *)addr)->sin6_addr;
}

struct route_question {
	struct nlmsghdr head;
	struct rtmsg route;
	uint8_t attributes[64];
};

static void put_attribute(struct route_question *q, unsigned short type,
			  const struct sockaddr_storage *addr)
{
	size_t len;
	const void *ip = ip_of(addr, &len);
	struct rtattr *attr = (struct rtattr *)((char *)q + NLMSG_ALIGN(q->head.nlmsg_len));

	attr->rta_type = type;
	attr->rta_len = (unsigned short)RTA_LENGTH(len);
	memcpy(RTA_DATA(attr), ip, len);
	q->head.nlmsg_len = (uint32_t)(NLMSG_ALIGN(q->head.nlmsg_len) + RTA_ALIGN(attr->rta_len));
}

/* The interface of an answer; 0: none. */
static unsigned interface_of(const struct nlmsghdr *head, size_t len)
{
	const struct rtattr *attr;
	unsigned index = 0;
	int left;

	if (!NLMSG_OK(head, len) || head->nlmsg_type != RTM_NEWROUTE)
		return 0;
	attr = RTM_RTA(NLMSG_DATA(head));
	for (left = (int)RTM_PAYLOAD(head); RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
		if (attr->rta_type == RTA_OIF && RTA_PAYLOAD(attr) >= sizeof(index))
			memcpy(&index, RTA_DATA(attr), sizeof(index));
	return index;
}

/* Where the kernel sends packets from one address to another. 0; -1: it does not say. */
static int ask_route(const struct rail_pair *pair, char name[IF_NAMESIZE])
{
	struct route_question q = {
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			 .nlmsg_type = RTM_GETROUTE,
			 .nlmsg_flags = NLM_F_REQUEST},
		.route = {.rtm_family = (unsigned char)pair->remote.ss_family},
	};
	_Alignas(struct nlmsghdr) char answer[4096];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t got = -1;
	unsigned index;

	if (fd < 0)
		return -1;
	q.route.rtm_dst_len = q.route.rtm_src_len = pair->remote.ss_family == AF_INET ? 32 : 128;
	put_attribute(&q, RTA_DST, &pair->remote);
	put_attribute(&q, RTA_SRC, &pair->local->addr);
	if (send(fd, &q, q.head.nlmsg_len, MSG_NOSIGNAL) >= 0)
		got = recv(fd, answer, sizeof(answer), 0); /* the kernel answers at once */
	close(fd);
	index = got > 0 ? interface_of((const struct nlmsghdr *)answer, (size_t)got) : 0;
	return index && if_indextoname(index, name) ? 0 : -1;
}

static const char *failure(int err)
{
	if (err == ECONNREFUSED)
		return "refused";
	return err == ENETUNREACH || err == EHOSTUNREACH ? "unreachable" : "silent";
}

static void begin(struct rail_pair *pair)
{
	if (sys_sock_open(pair->remote.ss_family, &pair->fd) != TCPX_OK)
		return;
	if (sys_sock_bind(pair->fd, &pair->local->addr) != TCPX_OK)
		pair->answer = "unreachable";
	else if (connect(pair->fd, (const struct sockaddr *)&pair->remote,
			 sys_addr_len(&pair->remote)) &&
		 errno != EINPROGRESS)
		pair->answer = failure(errno);
}

/* The connection is there, or has failed. */
static void end(struct rail_pair *pair)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);
	int err = sys_sock_error(pair->fd);

	pair->answer = err ? failure(err) : "yes";
	if (!err && !getsockopt(pair->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		pair->mtu = info.tcpi_pmtu;
}

/* All at once; what has not answered by the deadline is silent. */
static void knock(struct rails *rails)
{
	int64_t deadline_ns = clock_after(ANSWER_NS);
	unsigned open = 1;

	for (unsigned i = 0; i < rails->count; i++)
		begin(&rails->pairs[i]);
	while (open) {
		struct pollfd fds[PAIRS_MAX];
		int64_t left = deadline_ns - clock_now_ns();

		open = 0;
		for (unsigned i = 0; i < rails->count; i++) {
			const struct rail_pair *pair = &rails->pairs[i];

			fds[i] = (struct pollfd){pair->answer ? -1 : pair->fd, POLLOUT, 0};
			open += fds[i].fd >= 0;
		}
		if (left <= 0 || !open)
			break;
		poll(fds, rails->count, (int)(left / CLOCK_MS_NS) + 1);
		for (unsigned i = 0; i < rails->count; i++)
			if (fds[i].fd >= 0 && fds[i].revents)
				end(&rails->pairs[i]);
	}
	for (unsigned i = 0; i < rails->count; i++) {
		if (!rails->pairs[i].answer)
			rails->pairs[i].answer = "silent";
		if (rails->pairs[i].fd >= 0)
			close(rails->pairs[i].fd);
	}
}

/* The MTU of the other end's NIC that has the address. */
static void put_their_mtu(struct doctor_facts *facts, const struct sockaddr_storage *remote)
{
	char host[SYS_ADDR_TEXT];
	const char *address;
	uint64_t mtu;

	sys_addr_host_text(remote, host);
	for (unsigned i = 0; doctor_text(facts, "peer.nic.%u.name", i); i++) {
		address = doctor_text(facts, "peer.nic.%u.address", i);
		if (address && !strcmp(address, host) &&
		    !doctor_count(facts, &mtu, "peer.nic.%u.mtu", i))
			doctor_put_count(facts, mtu, "peer.mtu.route");
	}
}

static void put_mtu(struct doctor_facts *facts, const struct rail_pair *pair)
{
	uint64_t ours, path;
	int at;

	if (pair->local->loopback || strcmp(pair->answer, "yes"))
		return;
	at = doctor_nic_index(facts, pair->local->name);
	if (at < 0 || doctor_count(facts, &ours, "nic.%d.mtu", at))
		return;
	if (!doctor_text(facts, "mtu.route")) {
		doctor_put_count(facts, ours, "mtu.route");
		put_their_mtu(facts, &pair->remote);
	}
	if (pair->mtu && (doctor_count(facts, &path, "mtu.path") || pair->mtu < path))
		doctor_put_count(facts, pair->mtu, "mtu.path");
}

static void put_pair(struct doctor_facts *facts, const struct rail_pair *pair, unsigned i)
{
	char from[SYS_ADDR_TEXT], to[SYS_ADDR_TEXT], out[IF_NAMESIZE];

	sys_addr_host_text(&pair->local->addr, from);
	doctor_put_text(facts, from, "route.%u.from", i);
	doctor_put_text(facts, sys_addr_host_text(&pair->remote, to), "route.%u.to", i);
	doctor_put_text(facts, pair->local->name, "route.%u.nic", i);
	if (!ask_route(pair, out))
		doctor_put_text(facts, out, "route.%u.out", i);
	doctor_put_text(facts, from, "reach.%u.from", i);
	doctor_put_text(facts, sys_addr_text(&pair->remote, to), "reach.%u.to", i);
	doctor_put_text(facts, pair->answer, "reach.%u.answer", i);
	put_mtu(facts, pair);
}

void doctor_probe_rails(struct doctor_facts *facts, const char *addresses)
{
	static struct rails rails;
	struct sys_iface *ifaces = NULL;
	unsigned count = 0;

	rails.count = 0;
	if (sys_iface_list(&ifaces, &count) != TCPX_OK)
		return;
	find_pairs(&rails, ifaces, count, addresses);
	knock(&rails);
	for (unsigned i = 0; i < rails.count; i++)
		put_pair(facts, &rails.pairs[i], i);
	free(ifaces);
}
