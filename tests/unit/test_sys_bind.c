/* SPDX-License-Identifier: Apache-2.0 */
/* Bind lists over interfaces of our own making: what each form means, and what its error says. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sys/addr.h"
#include "sys/iface.h"

#define MAX 8

static struct sys_iface ifaces[16];
static unsigned nifaces;

static void have(const char *name, const char *address, unsigned prefix, int carrier)
{
	struct sys_iface *iface = &ifaces[nifaces++];

	snprintf(iface->name, sizeof(iface->name), "%s", name);
	assert_int_equal(sys_addr_parse(address, 0, &iface->addr), TCPX_OK);
	iface->prefix = prefix;
	iface->loopback = !strcmp(name, "lo");
	iface->carrier = carrier;
}

/* Names that no machine has, so that no real interface is found by them; "lo" is everywhere. */
static int make_host(void **state)
{
	(void)state;
	have("lo", "127.0.0.1", 8, 1);
	have("xth0", "10.9.0.1", 24, 1);
	have("xth1", "10.9.1.1", 24, 1);
	have("xth1", "10.9.2.1", 24, 1); /* a second address */
	have("xth10", "10.8.0.1", 24, 1);
	have("xth2", "10.9.3.1", 24, 0);
	have("docker0", "172.17.0.1", 16, 1);
	have("yb0", "10.20.0.1", 16, 1);
	have("xth0", "fd09::1", 64, 1);
	have("xth1", "fd09:0:0:1::1", 64, 1);
	have("xth0", "fe80::a%4000001", 64, 1);
	have("xth0", "fe80::b%4000001", 64, 1);
	have("xth1", "fe80::b%4000002", 64, 1);
	return 0;
}

static tcpx_status expand(const char *list, char *out, size_t cap)
{
	struct sockaddr_storage addrs[MAX];
	char text[SYS_ADDR_TEXT];
	unsigned count = 77;
	size_t len = 0;
	tcpx_status status = sys_iface_expand_of(list, ifaces, nifaces, addrs, MAX, &count);

	if (status != TCPX_OK) {
		assert_int_equal(count, 77);
		return status;
	}
	*out = '\0';
	for (unsigned i = 0; i < count; i++)
		len += (size_t)snprintf(out + len, cap - len, "%s%s", i ? " " : "",
					sys_addr_host_text(&addrs[i], text));
	return TCPX_OK;
}

static void lists_mean(void **state)
{
	static const struct {
		const char *list, *want;
	} rows[] = {
		{"xth0", "10.9.0.1 fd09::1"},
		{" xth0 ,\txth1 ", "10.9.0.1 fd09::1 10.9.1.1 fd09:0:0:1::1"},
		{"xth1", "10.9.1.1 fd09:0:0:1::1"}, /* and not xth10 */
		{"=xth1", "10.9.1.1 fd09:0:0:1::1"},
		{"xth2", "10.9.3.1"}, /* by its name also without a carrier */
		{"xth", "10.9.0.1 fd09::1 10.9.1.1 fd09:0:0:1::1 10.8.0.1"},
		{"xth*", "10.9.0.1 fd09::1 10.9.1.1 fd09:0:0:1::1 10.8.0.1"},
		{"xth1*", "10.9.1.1 fd09:0:0:1::1 10.8.0.1"},
		{"[xy]?*0", "10.9.0.1 fd09::1 10.8.0.1 10.20.0.1"},
		{"yb?", "10.20.0.1"},
		{"10.9.0.0/16", "10.9.0.1 10.9.1.1"},
		{"10.9.0.7/24", "10.9.0.1"}, /* bits of the host do not count */
		{"10.9.2.0/24", "10.9.2.1"},
		{"fd09::/48", "fd09::1 fd09:0:0:1::1"},
		{"[fd09::]/64,10.20.0.0/16", "fd09::1 10.20.0.1"},
		{"0.0.0.0/0", "127.0.0.1 10.9.0.1 10.9.1.1 10.8.0.1 172.17.0.1 10.20.0.1"},
		{"10.9.2.1", "10.9.2.1"},
		{"[fd09::1]", "fd09::1"},
		{"fd09::1,[fd09::1]", "fd09::1"},
		{"fe80::a", "fe80::a%4000001"}, /* on one interface alone */
		{"[fe80::b%4000002]", "fe80::b%4000002"},
		{"127.0.0.9", "127.0.0.9"},
		{"localhost", "127.0.0.1"},
		{"::", "::"},
		{"[::]", "::"},
		{"auto", "10.9.0.1 10.9.1.1 10.8.0.1 10.20.0.1"},
		{"^docker0", "10.9.0.1 10.9.1.1 10.8.0.1 10.20.0.1"},
		{"^docker0,lo,ybsomething", "10.9.0.1 10.9.1.1 10.8.0.1 10.20.0.1"},
		{" ^yb, docker ", "10.9.0.1 10.9.1.1 10.8.0.1"},
		{"^xth1", "10.9.0.1 10.8.0.1 10.20.0.1"},
		{"^=xth,xth1*", "10.9.0.1 10.20.0.1"},
		{"^xth", "10.20.0.1"},
		{"^10.9.0.0/16", "10.8.0.1 10.20.0.1 fd09::1 fd09:0:0:1::1"},
		{"^10.9.0.1,10.20.0.1", "10.9.1.1 10.8.0.1 fd09::1"},
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (expand(rows[i].list, text, sizeof(text)) != TCPX_OK)
			fail_msg("'%s': %s", rows[i].list, error_last()->what);
		if (strcmp(text, rows[i].want) != 0)
			fail_msg("'%s' is %s, not %s", rows[i].list, text, rows[i].want);
	}
}

static void errors_show_the_right_spelling(void **state)
{
	static const struct {
		const char *list;
		tcpx_status status;
		const char *what, *next;
	} rows[] = {
		{"fd09::1:20000", TCPX_ERR_INVALID, "has a port", "write fd09::1;"},
		{"[fd09::1]:20000", TCPX_ERR_INVALID, "has a port", "write fd09::1;"},
		{"10.9.0.1:20000", TCPX_ERR_INVALID, "has a port", "write 10.9.0.1;"},
		{"xth0:20000", TCPX_ERR_INVALID, "has a port", "write xth0;"},
		{"fd09::1:2000", TCPX_ERR_ADDRESS, "not an address of this machine", "use one of"},
		{"fe80::b", TCPX_ERR_ADDRESS, "fe80::b is on xth0 and on xth1",
		 "write fe80::b%xth0 or %xth1"},
		{"=xth", TCPX_ERR_ADDRESS, "xth is neither an interface", "xth0 10.9.0.1"},
		{"xyz*", TCPX_ERR_ADDRESS, "xyz* matches no interface", "xth0 10.9.0.1"},
		{"xth2*", TCPX_ERR_ADDRESS, "up with a carrier", "more in 'ip addr'"},
		{"10.77.0.0/16", TCPX_ERR_ADDRESS, "10.77.0.0/16 matches no interface",
		 "use one of"},
		{"10.9.0.0/33", TCPX_ERR_INVALID, "not a subnet", "10.9.0.0/24"},
		{"fd09::/129", TCPX_ERR_INVALID, "not a subnet", "fd09::/64"},
		{"10.9.0/24", TCPX_ERR_INVALID, "not a subnet", "10.9.0.0/24"},
		{"10.9.0.0/", TCPX_ERR_INVALID, "not a subnet", "10.9.0.0/24"},
		{"10.9.0.0/2x", TCPX_ERR_INVALID, "not a subnet", "10.9.0.0/24"},
		{"xth0,^lo", TCPX_ERR_INVALID, "only at the start of the list", "^A,B"},
		{"^xth,yb,lo", TCPX_ERR_ADDRESS, "excludes every usable interface", "use one of"},
		{"^", TCPX_ERR_INVALID, "empty entry", "commas"},
		{"xth0,,xth1", TCPX_ERR_INVALID, "empty entry", "commas"},
		{" ", TCPX_ERR_INVALID, "empty entry", "commas"},
		{"[fd09::1", TCPX_ERR_ADDRESS, "neither an interface nor an address", "use one of"},
		{"fd09::1]", TCPX_ERR_ADDRESS, "neither an interface nor an address", "use one of"},
		{"=", TCPX_ERR_ADDRESS, "neither an interface", "use one of"},
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		tcpx_status status = expand(rows[i].list, text, sizeof(text));

		if (status != rows[i].status || !strstr(error_last()->what, rows[i].what) ||
		    !strstr(error_last()->next, rows[i].next))
			fail_msg("'%s' is %s: %s; %s", rows[i].list, error_status_name(status),
				 error_last()->what, error_last()->next);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_mean),
		cmocka_unit_test(errors_show_the_right_spelling),
	};

	return cmocka_run_group_tests(tests, make_host, NULL);
}
