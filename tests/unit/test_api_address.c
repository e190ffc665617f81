/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that a session's info tells, and what TCPX_CTRL_IP makes of them. */
#include "unit.h"

#include <stdlib.h>

#include <tcpx/tcpx.h>

#include "wire/hello.h"

/* Read once in a process: each value has its own child. */
static const char *value, *want;

static void as_text(const struct wire_info *info, char *out, size_t size)
{
	size_t len = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < info->naddrs && len < size; i++) {
		const uint8_t *b = info->addrs[i].bytes;

		len += (size_t)snprintf(out + len, size - len, "%s%u.%u.%u.%u", i ? " " : "", b[0],
					b[1], b[2], b[3]);
	}
}

static int told(void)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = "told", .bind = "127.0.0.1,127.0.0.2");
	uint8_t bytes[TCPX_INFO_MAX_BYTES];
	struct wire_info info;
	tcpx_session *session;
	char text[256];
	uint16_t port;
	size_t len;

	setenv("UCCL_TCPX_CTRL_IP", value, 1);
	if (tcpx_session_open(&opts, &session))
		return 1;
	if (!want) {
		if (tcpx_session_listen(session, NULL, &port) != TCPX_ERR_INVALID ||
		    !strstr(tcpx_last_error()->what, "TCPX_CTRL_IP=eth0 is not an IP address"))
			return 2;
		tcpx_session_close(session);
		return 0;
	}
	if (tcpx_session_listen(session, NULL, &port) ||
	    tcpx_session_info(session, bytes, sizeof(bytes), &len) ||
	    wire_info_decode(bytes, len, &info))
		return 3;
	tcpx_session_close(session);
	as_text(&info, text, sizeof(text));
	if (strcmp(text, want)) {
		fprintf(stderr, "%s: %s, not %s\n", value, text, want);
		return 4;
	}
	for (uint32_t i = 0; i < info.naddrs; i++)
		if (info.addrs[i].port != port)
			return 5;
	return 0;
}

static void what_is_told(const char *ctrl_ip, const char *addresses)
{
	value = ctrl_ip;
	want = addresses;
	assert_int_equal(in_child(told), 0);
}

static void ours(void **state)
{
	(void)state;
	what_is_told("", "127.0.0.1 127.0.0.2");
	what_is_told("127.0.0.1", "127.0.0.1 127.0.0.2");
	what_is_told("127.0.0.2", "127.0.0.2 127.0.0.1");
}

/* Of a NAT, or of a service in front of it: nobody outside reaches ours. */
static void anothers(void **state)
{
	(void)state;
	what_is_told("192.0.2.7", "192.0.2.7");
}

static void no_address(void **state)
{
	(void)state;
	what_is_told("eth0", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ours),
		cmocka_unit_test(anothers),
		cmocka_unit_test(no_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
