/* SPDX-License-Identifier: Apache-2.0 */
/* The local end of a dialled connection: source ports of a range, and the interface. */
#include "ctl_rig.h"

#include <stdbool.h>

#include "sys/sock.h"

#define RANGE 4

/* A socket that holds a port, and shares it with our own dials alone or with nobody; -1: it is
 * taken. */
static int hold(const struct sockaddr_storage *host, uint16_t port, bool shares)
{
	struct sockaddr_storage addr = *host;
	int fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (shares)
		assert_int_equal(sys_sock_reuse(fd), 0);
	sys_addr_set_port(&addr, port);
	if (!bind(fd, (struct sockaddr *)&addr, sys_addr_len(&addr)))
		return fd;
	close(fd);
	return -1;
}

#define FIRST_PORT 21000 /* behind those that tests of the bootstrap use */
#define RANGES 2800	 /* before those that the kernel chooses */

/* RANGE ports in a row that nobody has, in another place for each process that looks, and that
 * nobody gets until held is closed: other tests look for ports, too. */
static uint16_t free_range(const struct sockaddr_storage *host, int held[RANGE])
{
	for (unsigned i = 0; i < RANGES; i++) {
		unsigned lo = FIRST_PORT + ((unsigned)getpid() * 7 + i) % RANGES * RANGE;
		unsigned n = 0;

		for (; n < RANGE; n++) {
			int alone = hold(host, (uint16_t)(lo + n), false);

			if (alone < 0)
				break;
			close(alone);
			held[n] = hold(host, (uint16_t)(lo + n), true);
			if (held[n] < 0)
				break;
		}
		if (n == RANGE)
			return (uint16_t)lo;
		while (n-- > 0)
			close(held[n]);
	}
	fail_msg("no free ports on this machine");
	return 0;
}

static uint16_t source_port(int fd)
{
	struct sockaddr_storage addr;

	assert_int_equal(sys_sock_local(fd, &addr), TCPX_OK);
	return sys_addr_port(&addr);
}

/* Dials count times and keeps what came of it. */
static void dial_many(struct rig *rig, const struct ctl_dial_opts *opts, int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(rig_dial(rig, opts), TCPX_OK);
		fds[i] = rig->dialled.fd;
		rig->dialled.fd = -1;
	}
}

static void close_many(int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		sys_sock_reset_on_close(fds[i]); /* its port is free at once */
		close(fds[i]);
	}
}

static void check_exhausted(struct rig *rig, const struct ctl_dial_opts *opts)
{
	struct ctl_dial *dial = NULL;
	unsigned before = open_descriptors();
	char range[32];

	assert_int_equal(ctl_dial_start(&rig->loop, opts, rig_done, rig, &dial), TCPX_ERR_ADDRESS);
	assert_null(dial);
	assert_int_equal(open_descriptors(), before);
	snprintf(range, sizeof(range), "%u-%u", opts->port_lo, opts->port_hi);
	assert_non_null(strstr(error_last()->what, range));
	assert_non_null(strstr(error_last()->next, "TCPX_SOURCE_PORTS"));
}

/* host: where the listener is; local: the dialler's address, or NULL. */
static void range_of(const char *host, const char *local)
{
	int fds[RANGE], held[RANGE];
	struct ctl_dial_opts opts;
	struct rig rig;
	uint16_t lo;

	rig_open(&rig, host);
	rig.auth = WIRE_AUTH_NONE;
	opts = rig_opts(&rig);
	if (local)
		assert_int_equal(sys_addr_parse(local, 0, &opts.local), TCPX_OK);
	lo = free_range(local ? &opts.local : &rig.addr, held);
	opts.port_lo = lo;
	opts.port_hi = (uint16_t)(lo + RANGE - 1);
	/* every port serves one connection to the same end, wherever the search begins */
	for (unsigned round = 0; round < 3; round++) {
		unsigned seen = 0;

		dial_many(&rig, &opts, fds, RANGE);
		for (unsigned i = 0; i < RANGE; i++) {
			uint16_t port = source_port(fds[i]);

			assert_in_range(port, lo, lo + RANGE - 1);
			seen |= 1u << (port - lo);
		}
		assert_int_equal(seen, (1u << RANGE) - 1);
		check_exhausted(&rig, &opts);
		close_many(fds, RANGE);
	}
	/* those of others are passed over */
	close(held[1]);
	fds[RANGE - 1] = hold(local ? &opts.local : &rig.addr, (uint16_t)(lo + 1), false);
	assert_true(fds[RANGE - 1] >= 0);
	dial_many(&rig, &opts, fds, RANGE - 1);
	for (unsigned i = 0; i < RANGE - 1; i++)
		assert_int_not_equal(source_port(fds[i]), lo + 1);
	check_exhausted(&rig, &opts);
	close_many(fds, RANGE);
	/* an exhausted range is exhausted for that end only while it lasts */
	dial_many(&rig, &opts, fds, 1);
	close_many(fds, 1);
	for (unsigned i = 0; i < RANGE; i++)
		if (i != 1)
			close(held[i]);
	rig_close(&rig);
}

static void ports_of_the_range_v4(void **state)
{
	(void)state;
	range_of("127.0.0.1", NULL);
	range_of("127.0.0.1", "127.0.0.7");
}

static void ports_of_the_range_v6(void **state)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 lo = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int usable = fd >= 0 && !bind(fd, (struct sockaddr *)&lo, sizeof(lo));

	(void)state;
	if (fd >= 0)
		close(fd);
	if (!usable)
		skip();
	range_of("::1", NULL);
	range_of("::1", "::1");
}

/* A range of one port that the listener has: the dial would meet itself or the listener. */
static void a_range_that_is_listened_on(void **state)
{
	struct ctl_dial_opts opts;
	struct rig rig;

	(void)state;
	rig_open(&rig, "127.0.0.1");
	rig.auth = WIRE_AUTH_NONE;
	opts = rig_opts(&rig);
	assert_int_equal(sys_addr_parse("127.0.0.1", 0, &opts.local), TCPX_OK);
	opts.port_lo = opts.port_hi = rig.port;
	check_exhausted(&rig, &opts);
	rig_close(&rig);
}

/* One port serves several remote ends. */
static void one_port_for_two_ends(void **state)
{
	struct ctl_dial_opts opts;
	struct rig one, two;
	int fds[2], held[RANGE];

	(void)state;
	rig_open(&one, "127.0.0.1");
	rig_open(&two, "127.0.0.2");
	one.auth = two.auth = WIRE_AUTH_NONE;
	opts = rig_opts(&one);
	opts.port_lo = opts.port_hi = free_range(&one.addr, held);
	dial_many(&one, &opts, fds, 1);
	opts.remote = two.addr;
	dial_many(&two, &opts, fds + 1, 1);
	assert_int_equal(source_port(fds[0]), source_port(fds[1]));
	close_many(fds, 2);
	for (unsigned i = 0; i < RANGE; i++)
		close(held[i]);
	rig_close(&one);
	rig_close(&two);
}

static void an_interface_that_is_none(void **state)
{
	struct sockaddr_storage any;
	struct ctl_dial_opts opts;
	struct ctl_dial *dial;
	struct rig rig;
	uint16_t port = 0;

	(void)state;
	rig_open(&rig, "127.0.0.1");
	rig.auth = WIRE_AUTH_NONE;
	opts = rig_opts(&rig);
	opts.device = "nosuch0";
	assert_int_equal(rig_dial(&rig, &opts), TCPX_OK); /* loopback is left alone */
	assert_int_equal(sys_addr_parse("192.0.2.1", 9, &opts.remote), TCPX_OK);
	assert_int_equal(ctl_dial_start(&rig.loop, &opts, rig_done, &rig, &dial), TCPX_ERR_ADDRESS);
	assert_non_null(strstr(error_last()->what, "nosuch0"));
	assert_non_null(strstr(error_last()->next, "ip link"));
	assert_int_equal(sys_addr_parse("0.0.0.0", 0, &any), TCPX_OK);
	assert_int_equal(sys_sock_listen(&any, "nosuch0", &port, 1, &(int){0}), TCPX_ERR_ADDRESS);
	assert_non_null(strstr(error_last()->what, "nosuch0"));
	rig_close(&rig);
}

static int without_the_right(void)
{
	int fd = -1;

	if (sys_sock_open(AF_INET, &fd) != TCPX_OK || sys_sock_bind_device(fd, "lo") != TCPX_OK ||
	    seteuid(65534))
		return 1;
	if (sys_sock_bind_device(fd, "lo") != TCPX_ERR_ADDRESS)
		return 2;
	return error_last()->system_errno == EPERM && strstr(error_last()->what, "not allowed") &&
			       strstr(error_last()->next, "CAP_NET_RAW")
		       ? 0
		       : 3;
}

/* The kernel lets anybody choose once, and only the privileged change it. */
static void an_interface_that_is_not_allowed(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(in_child(without_the_right), 0);
}

static void refused_at_start(struct rig *rig, const char *remote, const char *local)
{
	struct ctl_dial_opts opts = rig_opts(rig);
	unsigned before = open_descriptors();
	struct ctl_dial *dial = NULL;

	if (remote)
		assert_int_equal(sys_addr_parse(remote, 9, &opts.remote), TCPX_OK);
	if (local)
		assert_int_equal(sys_addr_parse(local, 0, &opts.local), TCPX_OK);
	assert_int_equal(ctl_dial_start(&rig->loop, &opts, rig_done, rig, &dial),
			 TCPX_ERR_UNSUPPORTED);
	assert_null(dial);
	assert_int_equal(open_descriptors(), before); /* nothing that could send */
	assert_non_null(strstr(error_last()->what, remote ? remote : local));
	assert_non_null(strstr(error_last()->what, "loopback only"));
	if (!sys_crypto_available())
		assert_non_null(strstr(error_last()->next, "libssl3"));
}

/* The bare secret is for loopback alone, at either end of the connection. */
static void a_bare_secret_stays_on_this_host(void **state)
{
	struct ctl_dial_opts opts;
	struct rig rig;

	(void)state;
	rig_open(&rig, "127.0.0.1");
	rig.auth = WIRE_AUTH_BARE;
	refused_at_start(&rig, "192.0.2.1", NULL);
	refused_at_start(&rig, "192.0.2.1", "127.0.0.1");
	refused_at_start(&rig, "2001:db8::1", NULL);
	refused_at_start(&rig, "::ffff:192.0.2.1", NULL);
	refused_at_start(&rig, "0.0.0.0", NULL);
	refused_at_start(&rig, NULL, "192.0.2.1");
	assert_int_equal(rig.ndone, 0);
	opts = rig_opts(&rig);
	assert_int_equal(rig_dial(&rig, &opts), TCPX_OK);
	assert_int_equal(sys_addr_parse("127.0.0.7", 0, &opts.local), TCPX_OK);
	assert_int_equal(rig_dial(&rig, &opts), TCPX_OK);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ports_of_the_range_v4),
		cmocka_unit_test(ports_of_the_range_v6),
		cmocka_unit_test(a_range_that_is_listened_on),
		cmocka_unit_test(one_port_for_two_ends),
		cmocka_unit_test(an_interface_that_is_none),
		cmocka_unit_test(an_interface_that_is_not_allowed),
		cmocka_unit_test(a_bare_secret_stays_on_this_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
