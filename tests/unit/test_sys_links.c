/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel tells of interfaces: its messages, malformed ones, and the real thing. */
#include "unit.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "sys/addr.h"
#include "sys/iface.h"
#include "sys/links.h"

#define LOWER_UP (1u << 16)

struct heard {
	unsigned count, index;
	char name[IF_NAMESIZE];
	int up;
};

static void on_changed(void *arg, unsigned index, const char *name, int up)
{
	struct heard *heard = arg;

	heard->count++;
	heard->index = index;
	snprintf(heard->name, sizeof(heard->name), "%s", name);
	heard->up = up;
}

/* A message about one interface. */
struct message {
	struct nlmsghdr head;
	struct ifinfomsg info;
	struct rtattr attr;
	char name[IF_NAMESIZE];
};

static struct message message_of(unsigned short type, unsigned flags)
{
	struct message m = {
		.head = {.nlmsg_len = sizeof(m), .nlmsg_type = type},
		.info = {.ifi_index = 7, .ifi_flags = flags},
		.attr = {.rta_len = RTA_LENGTH(IF_NAMESIZE), .rta_type = IFLA_IFNAME},
		.name = "eth7",
	};

	return m;
}

static struct heard read_of(const void *bytes, size_t len)
{
	struct heard heard = {0};
	struct sys_links links = {.changed = on_changed, .arg = &heard};
	void *copy = malloc(len ? len : 1); /* exactly as long: reading on is found out */

	assert_non_null(copy);
	memcpy(copy, bytes, len);
	sys_links_read(&links, copy, len);
	free(copy);
	return heard;
}

static void what_a_message_means(void **state)
{
	static const struct {
		unsigned short type;
		unsigned flags;
		unsigned count;
		int up;
	} rows[] = {
		{RTM_NEWLINK, IFF_UP | LOWER_UP, 1, 1},
		{RTM_NEWLINK, IFF_UP, 1, 0}, /* no carrier */
		{RTM_NEWLINK, LOWER_UP, 1, 0},
		{RTM_NEWLINK, 0, 1, 0},
		{RTM_DELLINK, IFF_UP | LOWER_UP, 1, 0},
		{RTM_NEWADDR, IFF_UP | LOWER_UP, 0, 0},
		{NLMSG_ERROR, IFF_UP | LOWER_UP, 0, 0},
		{NLMSG_DONE, 0, 0, 0},
	};
	struct message two[2];

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct message m = message_of(rows[i].type, rows[i].flags);
		struct heard heard = read_of(&m, sizeof(m));

		assert_int_equal(heard.count, rows[i].count);
		if (!heard.count)
			continue;
		assert_int_equal(heard.up, rows[i].up);
		assert_int_equal(heard.index, 7);
		assert_string_equal(heard.name, "eth7");
	}
	two[0] = message_of(RTM_NEWLINK, 0);
	two[1] = message_of(RTM_NEWLINK, IFF_UP | LOWER_UP);
	assert_int_equal(read_of(two, sizeof(two)).count, 2);
	two[0].info.ifi_family = AF_BRIDGE; /* a port of a bridge, not the interface */
	assert_int_equal(read_of(two, sizeof(two)).count, 1);
}

/* Lengths that lie, and every cut. */
static void malformed_messages(void **state)
{
	static const uint32_t lengths[] = {0, 1, 15, 16, 17, 31, 63, 64, 65, 1u << 20, UINT32_MAX};
	struct message two[2] = {message_of(RTM_NEWLINK, 0), message_of(RTM_NEWLINK, 0)};

	(void)state;
	for (size_t len = 0; len <= sizeof(two); len++)
		assert_in_range(read_of(two, len).count, 0, 2);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		two[0] = message_of(RTM_NEWLINK, 0);
		two[0].head.nlmsg_len = lengths[i];
		assert_in_range(read_of(two, sizeof(two)).count, 0, 2);
		two[0] = message_of(RTM_NEWLINK, 0);
		two[0].attr.rta_len = (unsigned short)lengths[i];
		assert_in_range(read_of(two, sizeof(two)).count, 0, 2);
	}
	two[0] = message_of(RTM_NEWLINK, 0);
	memset(two[0].name, 'x', sizeof(two[0].name)); /* no end of the name */
	assert_int_equal(strlen(read_of(two, sizeof(*two)).name), IF_NAMESIZE - 1);
	/* a last message whose padding is not there */
	two[1].head.nlmsg_len = sizeof(two[1]) - 1;
	assert_int_equal(read_of(two, sizeof(two) - 1).count, 2);
}

static void lo_flags(int fd, int set)
{
	struct ifreq ifr = {.ifr_name = "lo"};

	if (ioctl(fd, SIOCGIFFLAGS, &ifr))
		_exit(3);
	ifr.ifr_flags = (short)(set ? ifr.ifr_flags | IFF_UP : ifr.ifr_flags & ~IFF_UP);
	if (ioctl(fd, SIOCSIFFLAGS, &ifr))
		_exit(3);
}

static int hear(struct sys_loop *loop, const struct heard *heard, int up)
{
	int64_t end = clock_now_ns() + 20 * CLOCK_S_NS; /* a wide guard */

	while (heard->up != up && clock_now_ns() < end)
		sys_loop_round(loop, 10 * CLOCK_MS_NS);
	return heard->up == up && heard->index == if_nametoindex("lo") &&
	       !strcmp(heard->name, "lo");
}

/* In a namespace of its own: 0 all is well. */
static int in_a_namespace(void)
{
	struct heard heard = {.up = -1};
	struct sys_links links = {.changed = on_changed, .arg = &heard};
	struct sockaddr_storage lo;
	struct sys_loop loop;
	int fd;

	if (unshare(CLONE_NEWNET))
		return 77;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sys_addr_parse("127.0.0.1", 0, &lo) || sys_loop_init(&loop) ||
	    sys_links_open(&loop, &links))
		return 2;
	if (sys_iface_index(&lo) || sys_iface_carrier(&lo))
		return 4;
	lo_flags(fd, 1);
	if (!hear(&loop, &heard, 1))
		return 5;
	if (sys_iface_index(&lo) != if_nametoindex("lo") || !sys_iface_carrier(&lo))
		return 6;
	lo_flags(fd, 0);
	if (!hear(&loop, &heard, 0) || sys_iface_carrier(&lo))
		return 7;
	sys_links_close(&links);
	sys_links_close(&links);
	sys_loop_fini(&loop);
	close(fd);
	return 0;
}

static void run_in_a_namespace(int (*fn)(void))
{
	int code;

	if (geteuid())
		skip();
	code = in_child(fn);
	if (code == 77)
		skip();
	assert_int_equal(code, 0);
}

static void up_and_down_are_heard(void **state)
{
	(void)state;
	run_in_a_namespace(in_a_namespace);
}

/* Gives lo the address number of 10.9.0.0/16. */
static int give_lo(int fd, unsigned number)
{
	struct {
		struct nlmsghdr head;
		struct ifaddrmsg info;
		struct rtattr attr;
		uint32_t addr;
	} m = {
		.head = {.nlmsg_len = sizeof(m),
			 .nlmsg_type = RTM_NEWADDR,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK},
		.info = {.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = 1},
		.attr = {.rta_len = RTA_LENGTH(4), .rta_type = IFA_LOCAL},
		.addr = htonl((10u << 24) + (9u << 16) + number),
	};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr result;
		char rest[256];
	} ack;

	return send(fd, &m, sizeof(m), 0) == sizeof(m) && recv(fd, &ack, sizeof(ack), 0) > 0 &&
	       ack.head.nlmsg_type == NLMSG_ERROR && !ack.result.error;
}

#define MANY 300 /* addresses, as a host of many containers has interfaces */

/* In a namespace of its own: an address is found whatever comes before it. 0 all is well. */
static int among_many(void)
{
	struct sockaddr_storage last, out[1];
	struct sys_iface *ifaces;
	unsigned count;
	int fd, netlink;

	if (unshare(CLONE_NEWNET))
		return 77;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0 || netlink < 0 || if_nametoindex("lo") != 1)
		return 2;
	lo_flags(fd, 1);
	for (unsigned i = 1; i <= MANY; i++)
		if (!give_lo(netlink, i))
			return 3;
	if (sys_addr_parse("10.9.1.44", 0, &last) || /* MANY */
	    sys_iface_list(&ifaces, &count))
		return 4;
	if (count < MANY + 1 || !sys_addr_same_host(&ifaces[MANY].addr, &last))
		return 5;
	free(ifaces);
	if (sys_iface_index(&last) != 1 || !sys_iface_carrier(&last))
		return 6;
	if (sys_iface_expand("10.9.1.44", out, 1, &count) || count != 1)
		return 7;
	close(netlink);
	close(fd);
	return 0;
}

static void every_address_is_seen(void **state)
{
	(void)state;
	run_in_a_namespace(among_many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_message_means),
		cmocka_unit_test(malformed_messages),
		cmocka_unit_test(up_and_down_are_heard),
		cmocka_unit_test(every_address_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
