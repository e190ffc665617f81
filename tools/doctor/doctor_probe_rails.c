/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of addresses of both ends: the interface of the route, whether the other end answers,
 * and whether packets of the whole MTU arrive. */
#include <errno.h>
#include <linux/net_tstamp.h>
#include <linux/rtnetlink.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "doctor_probe.h"
#include "doctor_rules.h"
#include "sys/addr.h"
#include "sys/iface.h"
#include "sys/sock.h"

#define PAIRS_MAX 32
/* time limits of a connection and of data, which has been sent three times by then */
#define ANSWER_NS (1 * CLOCK_S_NS)
#define FULL_MAX 131072

struct rail_pair {
	const struct sys_iface *local;
	struct sockaddr_storage remote;
	int fd;
	const char *answer;
	int bound;	  /* 1: a session would use the pair; 2: only for that reason */
	unsigned mtu;	  /* path MTU; 0: unknown */
	int full;	  /* whether full-sized packets were acknowledged; -1: unknown */
	int64_t until_ns; /* deadline of the next step */
};

struct rails {
	struct rail_pair pairs[PAIRS_MAX];
	unsigned count;
	/* addresses of the other end that this host does not have as well */
	struct sockaddr_storage targets[PAIRS_MAX];
	unsigned ntargets;
};

/* Parses "10.0.0.1:80" or "[fe80::1%eth0]:80". Returns 0 or -1. */
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

/* The interface in a netlink answer; 0: none. */
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

/* The interface by which the kernel sends packets to an address, with or without a source
 * address. Returns 0, or -1 if the kernel does not answer. */
static int ask_route(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
		     char name[IF_NAMESIZE])
{
	struct route_question q = {
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			 .nlmsg_type = RTM_GETROUTE,
			 .nlmsg_flags = NLM_F_REQUEST},
		.route = {.rtm_family = (unsigned char)to->ss_family},
	};
	_Alignas(struct nlmsghdr) char answer[4096];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t got = -1;
	unsigned index;

	if (fd < 0)
		return -1;
	q.route.rtm_dst_len = to->ss_family == AF_INET ? 32 : 128;
	put_attribute(&q, RTA_DST, to);
	if (from) {
		q.route.rtm_src_len = q.route.rtm_dst_len;
		put_attribute(&q, RTA_SRC, from);
	}
	if (send(fd, &q, q.head.nlmsg_len, MSG_NOSIGNAL) >= 0)
		got = recv(fd, answer, sizeof(answer), 0); /* the kernel answers at once */
	close(fd);
	index = got > 0 ? interface_of((const struct nlmsghdr *)answer, (size_t)got) : 0;
	return index && if_indextoname(index, name) ? 0 : -1;
}

static int fits(const struct sys_iface *iface, const struct sockaddr_storage *remote)
{
	return iface->loopback == sys_addr_is_loopback(remote) &&
	       iface->addr.ss_family == remote->ss_family;
}

static void add_pair(struct rails *rails, const struct sys_iface *local,
		     const struct sockaddr_storage *remote)
{
	if (rails->count < PAIRS_MAX)
		rails->pairs[rails->count++] =
			(struct rail_pair){.local = local, .remote = *remote, .fd = -1, .full = -1};
}

/* The NIC of the other end that has the address; NULL: unknown. */
static const char *their_nic(const struct doctor_facts *facts,
			     const struct sockaddr_storage *remote, unsigned *out_at)
{
	char host[SYS_ADDR_TEXT];
	const char *name, *address;

	sys_addr_host_text(remote, host);
	for (*out_at = 0; (name = doctor_text(facts, "peer.nic.%u.name", *out_at)); ++*out_at) {
		address = doctor_text(facts, "peer.nic.%u.address", *out_at);
		if (address && !strcmp(address, host))
			return name;
	}
	return NULL;
}

/* Pairs the address with the interface of this host that has the name. */
static void pair_by_name(struct rails *rails, const struct sys_iface *ifaces, unsigned count,
			 const char *name, const struct sockaddr_storage *remote)
{
	for (unsigned i = 0; i < count; i++)
		if (fits(&ifaces[i], remote) && !strcmp(ifaces[i].name, name) &&
		    !sys_addr_is_link_local(&ifaces[i].addr)) {
			add_pair(rails, &ifaces[i], remote);
			return;
		}
}

/* Pairs addresses of one subnet, or both of loopback. Cloud hosts have addresses without a
 * subnet: NICs of the same name are the same rail there. If that finds nothing, the route of the
 * kernel decides. */
static void find_pairs(struct rails *rails, const struct doctor_facts *facts,
		       const struct sys_iface *ifaces, unsigned count, const char *addresses,
		       int by_kernel)
{
	struct sockaddr_storage remote;
	char out[IF_NAMESIZE];
	size_t len;

	for (; *addresses; addresses += len + (addresses[len] == '\n')) {
		unsigned before = rails->count, at;
		const char *name = NULL;

		len = strcspn(addresses, "\n");
		if (parse_address(addresses, len, &remote))
			continue;
		for (unsigned i = 0; i < count; i++)
			if (fits(&ifaces[i], &remote) && sys_iface_direct(&ifaces[i], &remote))
				add_pair(rails, &ifaces[i], &remote);
		if (rails->count > before || sys_addr_is_loopback(&remote) ||
		    sys_addr_is_link_local(&remote))
			continue;
		if (!by_kernel)
			name = their_nic(facts, &remote, &at);
		else if (!ask_route(NULL, &remote, out))
			name = out;
		if (name)
			pair_by_name(rails, ifaces, count, name, &remote);
	}
}

/* The address of the other end that the library would dial from a local address: one in the same
 * subnet, else one of the same family by index. Addresses that this host has as well do not
 * count. */
static int pick_target(const struct rails *rails, const struct sys_iface *local, unsigned rail,
		       struct sockaddr_storage *out)
{
	int found = 0;

	for (unsigned i = 0; i < rails->ntargets; i++) {
		const struct sockaddr_storage *addr = &rails->targets[(rail + i) % rails->ntargets];

		if (addr->ss_family != local->addr.ss_family ||
		    sys_addr_is_link_local(addr) != sys_addr_is_link_local(&local->addr))
			continue;
		if (sys_iface_direct(local, addr)) {
			*out = *addr;
			return 1;
		}
		if (!found)
			*out = *addr;
		found = 1;
	}
	return found;
}

/* The addresses of the other end without those that this host has as well; notes the interface
 * of an address that was left out. */
static void find_targets(struct rails *rails, const struct sys_iface *ifaces, unsigned count,
			 const char *addresses)
{
	struct sockaddr_storage remote;
	size_t len;

	for (; *addresses; addresses += len + (addresses[len] == '\n')) {
		int ours = 0;

		len = strcspn(addresses, "\n");
		if (parse_address(addresses, len, &remote))
			continue;
		for (unsigned i = 0; i < count; i++)
			ours |= sys_addr_same_subnet(&ifaces[i].addr, &remote, 128);
		if (!ours && rails->ntargets < PAIRS_MAX)
			rails->targets[rails->ntargets++] = remote;
	}
}

/* Addresses that a session binds to here: TCPX_BIND, or "auto", the default with NIXL. */
static void find_bound(struct rails *rails, const struct sys_iface *ifaces, unsigned count)
{
	const char *bind = config_text(CONFIG_BIND);
	struct sockaddr_storage bound[PAIRS_MAX], remote;
	unsigned nbound = 0;

	if (sys_iface_expand(*bind ? bind : "auto", bound, PAIRS_MAX, &nbound) != TCPX_OK)
		return;
	for (unsigned b = 0; b < nbound; b++) {
		const struct sys_iface *local = NULL;
		unsigned at = 0;

		for (unsigned i = 0; i < count && !local; i++)
			if (sys_addr_same_host(&ifaces[i].addr, &bound[b]))
				local = &ifaces[i];
		if (!local || local->loopback || !pick_target(rails, local, b, &remote))
			continue;
		while (at < rails->count &&
		       (rails->pairs[at].local != local ||
			!sys_addr_same_host(&rails->pairs[at].remote, &remote)))
			at++;
		if (at == rails->count) {
			add_pair(rails, local, &remote);
			if (at < rails->count)
				rails->pairs[at].bound = 2;
		} else {
			rails->pairs[at].bound = 1;
		}
	}
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

/* Sends two packets of the whole MTU. If the path MTU is smaller and no router says so, small
 * packets pass and these do not. Their acknowledgement arrives as a timestamp in the error
 * queue. */
static int send_full(struct rail_pair *pair, const struct tcp_info *info)
{
	static const char full[FULL_MAX];
	const int stamps =
		SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY;
	size_t len = 2 * (size_t)info->tcpi_snd_mss;

	if (pair->local->loopback || len > sizeof(full) ||
	    setsockopt(pair->fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof(stamps)))
		return -1;
	sys_sock_nodelay(pair->fd);
	return send(pair->fd, full, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len ? 0 : -1;
}

/* Handles a connection that is up or has failed. */
static void end_connect(struct rail_pair *pair, const struct doctor_probe_opts *opts)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);
	int err = sys_sock_error(pair->fd);

	pair->answer = err ? failure(err) : "yes";
	pair->until_ns = 0;
	if (err || getsockopt(pair->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return;
	pair->mtu = info.tcpi_pmtu;
	if (!send_full(pair, &info))
		pair->until_ns = doctor_until(opts, ANSWER_NS);
}

/* The data was acknowledged, or the peer reset the connection on receiving it; or it is late. If
 * a router reported a smaller MTU, the path MTU has changed by now. */
static void end_full(struct rail_pair *pair)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	pair->until_ns = 0;
	if (getsockopt(pair->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return;
	pair->full = !info.tcpi_unacked;
	if (info.tcpi_state == TCP_ESTABLISHED && info.tcpi_pmtu)
		pair->mtu = info.tcpi_pmtu;
}

/* Makes one step with a pair that has an event or is late. */
static void step(struct rail_pair *pair, const struct doctor_probe_opts *opts, int ready)
{
	if (pair->answer)
		end_full(pair);
	else if (ready)
		end_connect(pair, opts);
	else
		pair->until_ns = 0;
}

/* Tries all pairs at once; those without an answer at the deadline are silent. */
static void knock(struct rails *rails, const struct doctor_probe_opts *opts)
{
	for (unsigned i = 0; i < rails->count; i++) {
		rails->pairs[i].until_ns = doctor_until(opts, ANSWER_NS);
		begin(&rails->pairs[i]);
		if (rails->pairs[i].answer || rails->pairs[i].fd < 0)
			rails->pairs[i].until_ns = 0;
	}
	for (;;) {
		struct pollfd fds[PAIRS_MAX];
		int64_t first = INT64_MAX, now_ns;

		for (unsigned i = 0; i < rails->count; i++) {
			const struct rail_pair *pair = &rails->pairs[i];

			fds[i] = (struct pollfd){pair->until_ns ? pair->fd : -1,
						 pair->answer ? 0 : POLLOUT, 0};
			if (pair->until_ns && pair->until_ns < first)
				first = pair->until_ns;
		}
		if (first == INT64_MAX)
			break;
		now_ns = clock_now_ns();
		poll(fds, rails->count,
		     first > now_ns ? (int)((first - now_ns) / CLOCK_MS_NS) + 1 : 0);
		now_ns = clock_now_ns();
		for (unsigned i = 0; i < rails->count; i++)
			if (fds[i].fd >= 0 &&
			    (fds[i].revents || now_ns >= rails->pairs[i].until_ns))
				step(&rails->pairs[i], opts, fds[i].revents != 0);
	}
	for (unsigned i = 0; i < rails->count; i++) {
		if (!rails->pairs[i].answer)
			rails->pairs[i].answer = "silent";
		if (rails->pairs[i].fd < 0)
			continue;
		/* close without further retransmissions */
		sys_sock_reset_on_close(rails->pairs[i].fd);
		close(rails->pairs[i].fd);
	}
}

static void put_mtu(struct doctor_facts *facts, const struct rail_pair *pair, unsigned i)
{
	uint64_t ours, theirs, path;
	unsigned there;
	int at;

	if (pair->local->loopback || strcmp(pair->answer, "yes"))
		return;
	if (pair->full >= 0)
		doctor_put_flag(facts, pair->full, "reach.%u.full", i);
	at = doctor_nic_index(facts, pair->local->name);
	if (at < 0 || doctor_count(facts, &ours, "nic.%d.mtu", at))
		return;
	if (!doctor_text(facts, "mtu.route")) {
		doctor_put_count(facts, ours, "mtu.route");
		if (their_nic(facts, &pair->remote, &there) &&
		    !doctor_count(facts, &theirs, "peer.nic.%u.mtu", there))
			doctor_put_count(facts, theirs, "peer.mtu.route");
	}
	if (pair->mtu && (doctor_count(facts, &path, "mtu.path") || pair->mtu < path))
		doctor_put_count(facts, pair->mtu, "mtu.path");
}

static void doctor_probe_rails_put_pair(struct doctor_facts *facts, const struct rail_pair *pair,
					unsigned i)
{
	char from[SYS_ADDR_TEXT], to[SYS_ADDR_TEXT], out[IF_NAMESIZE];

	sys_addr_host_text(&pair->local->addr, from);
	doctor_put_text(facts, from, "route.%u.from", i);
	doctor_put_text(facts, sys_addr_host_text(&pair->remote, to), "route.%u.to", i);
	doctor_put_text(facts, pair->local->name, "route.%u.nic", i);
	if (!ask_route(&pair->local->addr, &pair->remote, out))
		doctor_put_text(facts, out, "route.%u.out", i);
	doctor_put_text(facts, from, "reach.%u.from", i);
	doctor_put_text(facts, sys_addr_text(&pair->remote, to), "reach.%u.to", i);
	doctor_put_text(facts, pair->answer, "reach.%u.answer", i);
	put_mtu(facts, pair, i);
}

/* Records a rail that the library would use. */
static void put_rail(struct doctor_facts *facts, const struct rail_pair *pair, unsigned i,
		     const char *addresses)
{
	char from[SYS_ADDR_TEXT], to[SYS_ADDR_TEXT], out[IF_NAMESIZE];
	const char *answer = pair->answer;
	struct sockaddr_storage theirs;
	size_t len;

	for (; *addresses; addresses += len + (addresses[len] == '\n')) {
		len = strcspn(addresses, "\n");
		if (strcmp(answer, "yes") && !parse_address(addresses, len, &theirs) &&
		    sys_addr_same_host(&theirs, &pair->local->addr))
			answer = "both";
	}
	doctor_put_text(facts, pair->local->name, "rail.%u.nic", i);
	doctor_put_text(facts, sys_addr_host_text(&pair->local->addr, from), "rail.%u.from", i);
	doctor_put_text(facts, sys_addr_host_text(&pair->remote, to), "rail.%u.to", i);
	if (!ask_route(&pair->local->addr, &pair->remote, out))
		doctor_put_text(facts, out, "rail.%u.out", i);
	doctor_put_text(facts, answer, "rail.%u.answer", i);
}

void doctor_probe_rails(struct doctor_facts *facts, const struct doctor_probe_opts *opts,
			const char *addresses)
{
	static struct rails rails;
	struct sys_iface *ifaces = NULL;
	unsigned count = 0;

	rails.count = rails.ntargets = 0;
	if (sys_iface_list(&ifaces, &count) != TCPX_OK)
		return;
	find_pairs(&rails, facts, ifaces, count, addresses, 0);
	if (!rails.count)
		find_pairs(&rails, facts, ifaces, count, addresses, 1);
	find_targets(&rails, ifaces, count, addresses);
	find_bound(&rails, ifaces, count);
	knock(&rails, opts);
	for (unsigned i = 0, pairs = 0, bound = 0; i < rails.count; i++) {
		if (rails.pairs[i].bound)
			put_rail(facts, &rails.pairs[i], bound++, addresses);
		if (rails.pairs[i].bound < 2)
			doctor_probe_rails_put_pair(facts, &rails.pairs[i], pairs++);
	}
	free(ifaces);
}
