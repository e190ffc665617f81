/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, interfaces, bind lists, sockets and what their errnos mean. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/addr.h"
#include "sys/iface.h"
#include "sys/sock.h"

static struct sockaddr_storage at(const char *text)
{
	struct sockaddr_storage addr;

	assert_int_equal(sys_addr_parse(text, 9, &addr), TCPX_OK);
	return addr;
}

static void literals_survive_a_round_trip(void **state)
{
	static const char *const good[] = {"0.0.0.0", "127.0.0.1", "10.1.2.3",
					   "::",      "::1",	   "2001:db8::5"};
	char buf[SYS_ADDR_TEXT];
	struct sockaddr_storage addr;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		addr = at(good[i]);
		assert_string_equal(sys_addr_host_text(&addr, buf), good[i]);
		assert_int_equal(sys_addr_port(&addr), 9);
	}
	addr = at("fe80::1%lo");
	assert_string_equal(sys_addr_text(&addr, buf), "[fe80::1%lo]:9");
	assert_int_equal(((struct sockaddr_in6 *)&addr)->sin6_scope_id, if_nametoindex("lo"));
	addr = at("fe80::1%4000000"); /* by number; no such interface now */
	assert_string_equal(sys_addr_host_text(&addr, buf), "fe80::1%4000000");
	memset(&addr, 0, sizeof(addr));
	assert_string_equal(sys_addr_text(&addr, buf), "(no address)");
}

static void what_is_no_literal_is_refused(void **state)
{
	static const char *const bad[] = {"",		"localhost", "1.2.3",	     "1.2.3.4.5",
					  "1.2.3.4%lo", "[::1]",     "fe80::1%nope", "fe80::1%",
					  "::1%0",	"1.2.3.4:80"};
	struct sockaddr_storage addr;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (sys_addr_parse(bad[i], 0, &addr) != TCPX_ERR_INVALID)
			fail_msg("'%s' was taken", bad[i]);
}

static void places_are_told_apart(void **state)
{
	struct sockaddr_storage a = at("10.1.2.3"), b = at("10.1.2.77"), c = at("10.1.3.3");
	struct sockaddr_storage v6 = at("2001:db8::1"), w6 = at("2001:db8::ffff:0:0:1");
	struct sockaddr_storage mapped = at("::ffff:10.1.2.3"), x6 = at("2001:db8:0:1::1");
	struct sockaddr_storage lo = at("127.9.9.9"), lo6 = at("::1"), lom = at("::ffff:127.0.0.1");

	(void)state;
	assert_true(sys_addr_same_subnet(&a, &b, 24));
	assert_false(sys_addr_same_subnet(&a, &c, 24));
	assert_true(sys_addr_same_subnet(&a, &c, 23));
	assert_false(sys_addr_same_subnet(&a, &b, 32));
	assert_true(sys_addr_same_subnet(&a, &a, 128));
	assert_false(sys_addr_same_subnet(&a, &v6, 0));
	assert_true(sys_addr_same_subnet(&v6, &w6, 64));
	assert_false(sys_addr_same_host(&a, &b));
	assert_true(sys_addr_same_host(&a, &a));
	assert_true(sys_addr_is_loopback(&lo) && sys_addr_is_loopback(&lo6) &&
		    sys_addr_is_loopback(&lom));
	assert_false(sys_addr_is_loopback(&a) || sys_addr_is_loopback(&v6));
	assert_true(sys_addr_source(&lo) == sys_addr_source(&lo6));
	assert_true(sys_addr_source(&a) == sys_addr_source(&mapped));
	assert_true(sys_addr_source(&v6) == sys_addr_source(&w6));
	assert_true(sys_addr_source(&v6) != sys_addr_source(&x6));
	assert_true(sys_addr_source(&a) != sys_addr_source(&b));
}

static void addresses_reach_so_far(void **state)
{
	static const struct {
		const char *text;
		enum sys_scope scope;
	} rows[] = {
		{"10.1.2.3", SYS_SCOPE_WIDE},
		{"0.0.0.0", SYS_SCOPE_NONE},
		{"0.1.2.3", SYS_SCOPE_NONE},
		{"127.0.0.1", SYS_SCOPE_LOOPBACK},
		{"169.254.169.254", SYS_SCOPE_LINK},
		{"223.255.0.1", SYS_SCOPE_WIDE},
		{"224.0.0.1", SYS_SCOPE_NONE},
		{"255.255.255.255", SYS_SCOPE_NONE},
		{"::", SYS_SCOPE_NONE},
		{"::1", SYS_SCOPE_LOOPBACK},
		{"fe80::1%lo", SYS_SCOPE_LINK},
		{"ff02::1", SYS_SCOPE_NONE},
		{"fd00::1", SYS_SCOPE_WIDE},
		{"2001:db8::1", SYS_SCOPE_WIDE},
		{"::ffff:127.0.0.1", SYS_SCOPE_LOOPBACK},
		{"::ffff:169.254.0.1", SYS_SCOPE_LINK},
		{"::ffff:10.0.0.1", SYS_SCOPE_WIDE},
		{"::ffff:224.0.0.1", SYS_SCOPE_NONE},
	};
	struct sockaddr_storage none = {0}, wide = at("10.0.0.1"), link = at("fe80::2%lo"),
				lo = at("127.0.0.1"), multicast = at("224.0.0.1");

	(void)state;
	assert_int_equal(sys_addr_scope(&none), SYS_SCOPE_NONE);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sockaddr_storage addr = at(rows[i].text);

		if (sys_addr_scope(&addr) != rows[i].scope)
			fail_msg("%s: %d", rows[i].text, (int)sys_addr_scope(&addr));
	}
	assert_true(sys_addr_may_dial(&wide, &link, 0) && sys_addr_may_dial(&link, &link, 0));
	assert_false(sys_addr_may_dial(&link, &wide, 0) || sys_addr_may_dial(&lo, &wide, 0));
	assert_true(sys_addr_may_dial(&lo, &wide, 1) && sys_addr_may_dial(&lo, &lo, 0));
	assert_false(sys_addr_may_dial(&multicast, &wide, 1) ||
		     sys_addr_may_dial(&multicast, &multicast, 1));
}

static void a_route_is_direct_within_the_subnet(void **state)
{
	struct sys_iface iface = {.name = "x", .addr = at("10.1.2.3"), .prefix = 24};
	struct sockaddr_storage near = at("10.1.2.9"), far = at("10.1.3.9"), v6 = at("fe80::2%lo");
	struct sys_iface link = {.name = "lo", .addr = at("fe80::1%lo"), .prefix = 64};
	struct sys_iface other = {.name = "y", .addr = at("fe80::1%4000000"), .prefix = 64};

	(void)state;
	assert_true(sys_iface_direct(&iface, &near));
	assert_false(sys_iface_direct(&iface, &far));
	assert_false(sys_iface_direct(&iface, &v6));
	assert_true(sys_iface_direct(&link, &v6));
	assert_false(sys_iface_direct(&other, &v6));
}

static void bind_lists_expand(void **state)
{
	struct sockaddr_storage addrs[4];
	struct sys_iface *ifaces;
	unsigned count, niface;
	char buf[SYS_ADDR_TEXT];

	(void)state;
	assert_int_equal(sys_iface_expand("127.0.0.1,127.0.0.2,127.0.0.1", addrs, 4, &count),
			 TCPX_OK);
	assert_int_equal(count, 2);
	assert_string_equal(sys_addr_text(&addrs[1], buf), "127.0.0.2:0");
	assert_int_equal(sys_iface_expand("localhost", addrs, 4, &count), TCPX_OK);
	assert_string_equal(sys_addr_host_text(&addrs[0], buf), "127.0.0.1");
	assert_int_equal(sys_iface_expand("0.0.0.0", addrs, 4, &count), TCPX_OK);
	assert_int_equal(sys_iface_list(&ifaces, &niface), TCPX_OK);
	for (unsigned i = 0; i < niface; i++) {
		assert_int_equal(sys_iface_expand(ifaces[i].name, addrs, 4, &count), TCPX_OK);
		assert_true(count >= 1 && count <= 2);
		assert_int_equal(sys_addr_port(&addrs[0]), 0);
		if (!sys_addr_is_link_local(&ifaces[i].addr))
			assert_int_equal(sys_iface_expand(sys_addr_host_text(&ifaces[i].addr, buf),
							  addrs, 4, &count),
					 TCPX_OK);
		assert_true(sys_iface_direct(&ifaces[i], &ifaces[i].addr));
	}
	free(ifaces);
}

static void refuses(const char *list, tcpx_status want, const char *what)
{
	struct sockaddr_storage addrs[2];
	unsigned count = 77;

	assert_int_equal(sys_iface_expand(list, addrs, 2, &count), want);
	assert_int_equal(count, 77);
	if (!strstr(error_last()->what, what))
		fail_msg("'%s'", error_last()->what);
	assert_true(error_last()->next[0]);
}

static void bad_bind_lists_name_cause_and_remedy(void **state)
{
	char name[400] = "";

	(void)state;
	refuses("192.0.2.55", TCPX_ERR_ADDRESS, "192.0.2.55 is not an address of this machine");
	assert_non_null(strstr(error_last()->next, "lo 127.0.0.1"));
	refuses("nosuchif0", TCPX_ERR_ADDRESS, "nosuchif0 is neither an interface nor an address");
	refuses("127.0.0.1,", TCPX_ERR_INVALID, "empty entry");
	refuses("", TCPX_ERR_INVALID, "empty entry");
	refuses("127.0.0.1,127.0.0.2,127.0.0.3", TCPX_ERR_LIMIT, "more than 2");
	memset(name, 'a', sizeof(name) - 1);
	refuses(name, TCPX_ERR_INVALID, "'aaaaaaaaaa");
}

static void hosts_and_ports_are_split(void **state)
{
	static const struct {
		const char *text, *host; /* host NULL: port is what the refusal says */
		unsigned port;
		const char *why;
	} rows[] = {
		{"a", "a", 7, NULL},
		{"a.example:1", "a.example", 1, NULL},
		{"10.0.0.1:65535", "10.0.0.1", 65535, NULL},
		{"fd09::1", "fd09::1", 7, NULL},
		{"fd09::1:2000", "fd09::1:2000", 7, NULL}, /* an address, too */
		{"[fd09::1]", "fd09::1", 7, NULL},
		{"[fd09::1]:20000", "fd09::1", 20000, NULL},
		{"fe80::1%lo", "fe80::1%lo", 7, NULL},
		{"fd09::1:20000", NULL, 0, "write [fd09::1]:20000"},
		{"fe80::1%lo:20000", NULL, 0, "write [fe80::1%lo]:20000"},
		{"fe80::1%nosuch0", NULL, 0, "no interface has the name after the %"},
		{"a:b:c", NULL, 0, "not an IPv6 address"},
		{"[fd09::1", NULL, 0, "the ] is missing"},
		{"[fd09::1]80", NULL, 0, "only :PORT may follow the ]"},
		{"a:", NULL, 0, "1..65535"},
		{"a:0", NULL, 0, "1..65535"},
		{"a:65536", NULL, 0, "1..65535"},
		{"a:080000", NULL, 0, "1..65535"},
		{"a:-1", NULL, 0, "1..65535"},
		{"", NULL, 0, "empty"},
		{":80", NULL, 0, "empty"},
		{"[]:80", NULL, 0, "empty"},
	};
	char host[SYS_HOST_MAX], long_name[400] = "";

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint16_t port = 7;
		const char *why = sys_addr_split(rows[i].text, host, &port);

		if (rows[i].host ? why || strcmp(host, rows[i].host) || port != rows[i].port
				 : !why || !strstr(why, rows[i].why) || port != 7)
			fail_msg("'%s': %s", rows[i].text, why ? why : host);
	}
	memset(long_name, 'a', sizeof(long_name) - 1);
	assert_non_null(sys_addr_split(long_name, host, &(uint16_t){0}));
}

static void errnos_have_their_status(void **state)
{
	static const struct {
		int err;
		tcpx_status status;
	} map[] = {{0, TCPX_OK},
		   {ECONNREFUSED, TCPX_ERR_REFUSED},
		   {ECONNRESET, TCPX_ERR_PEER_RESET},
		   {EPIPE, TCPX_ERR_PEER_RESET},
		   {EHOSTUNREACH, TCPX_ERR_UNREACHABLE},
		   {ENETUNREACH, TCPX_ERR_UNREACHABLE},
		   {ENETDOWN, TCPX_ERR_UNREACHABLE},
		   {ETIMEDOUT, TCPX_ERR_PEER_SILENT},
		   {EMFILE, TCPX_ERR_NO_DESCRIPTORS},
		   {ENFILE, TCPX_ERR_NO_DESCRIPTORS},
		   {ENOBUFS, TCPX_ERR_NO_MEMORY},
		   {EADDRINUSE, TCPX_ERR_ADDRESS},
		   {EADDRNOTAVAIL, TCPX_ERR_ADDRESS},
		   {EXDEV, TCPX_ERR_SYSTEM}};

	(void)state;
	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		assert_int_equal(sys_errno_status(map[i].err), map[i].status);
}

static void sockets_have_the_flags_everybody_wants(void **state)
{
	struct sockaddr_storage addr = at("127.0.0.1"), local, remote;
	char congestion[16];
	uint16_t port = 0;
	int fd, dialler;

	(void)state;
	assert_int_equal(sys_sock_listen(&addr, NULL, &port, 4, &fd), TCPX_OK);
	assert_int_not_equal(port, 0);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	sys_addr_set_port(&addr, port);
	assert_int_equal(sys_sock_open(AF_INET, &dialler), TCPX_OK);
	local = at("127.0.0.5");
	sys_addr_set_port(&local, 0);
	assert_int_equal(sys_sock_bind(dialler, &local), TCPX_OK);
	if (connect(dialler, (struct sockaddr *)&addr, sys_addr_len(&addr)))
		assert_int_equal(errno, EINPROGRESS);
	assert_int_equal(sys_sock_error(dialler), 0);
	assert_int_equal(sys_sock_local(dialler, &local), TCPX_OK);
	assert_int_equal(sys_sock_remote(dialler, &remote), TCPX_OK);
	assert_int_equal(sys_addr_port(&remote), port);
	remote = at("127.0.0.5");
	assert_true(sys_addr_same_host(&local, &remote));
	assert_int_equal(sys_sock_nodelay(dialler), 0);
	assert_int_equal(sys_sock_keepalive(dialler, 5, 1, 3), 0);
	assert_int_equal(sys_sock_user_timeout(dialler, 1000), 0);
	assert_int_equal(sys_sock_congestion_get(dialler, congestion, sizeof(congestion)), 0);
	assert_true(congestion[0]);
	assert_int_equal(sys_sock_congestion_set(dialler, congestion), 0);
	assert_int_equal(sys_sock_congestion_set(dialler, "nosuchone"), ENOENT);
	close(dialler);
	close(fd);
}

static void addresses_that_cannot_be_had_are_named(void **state)
{
	struct sockaddr_storage addr = at("192.0.2.55"), lo = at("127.0.0.1");
	uint16_t port = 0;
	int fd, second = -1;

	(void)state;
	assert_int_equal(sys_sock_listen(&addr, NULL, &port, 4, &fd), TCPX_ERR_ADDRESS);
	assert_non_null(strstr(error_last()->what, "192.0.2.55"));
	assert_int_equal(sys_sock_listen(&lo, NULL, &port, 4, &fd), TCPX_OK);
	assert_int_equal(sys_sock_listen(&lo, NULL, &port, 4, &second), TCPX_ERR_ADDRESS);
	assert_non_null(strstr(error_last()->what, "taken"));
	assert_int_equal(second, -1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(literals_survive_a_round_trip),
		cmocka_unit_test(what_is_no_literal_is_refused),
		cmocka_unit_test(places_are_told_apart),
		cmocka_unit_test(addresses_reach_so_far),
		cmocka_unit_test(a_route_is_direct_within_the_subnet),
		cmocka_unit_test(bind_lists_expand),
		cmocka_unit_test(bad_bind_lists_name_cause_and_remedy),
		cmocka_unit_test(hosts_and_ports_are_split),
		cmocka_unit_test(errnos_have_their_status),
		cmocka_unit_test(sockets_have_the_flags_everybody_wants),
		cmocka_unit_test(addresses_that_cannot_be_had_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
