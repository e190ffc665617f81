/* SPDX-License-Identifier: Apache-2.0 */
/* A session that connects to what accepts, and is no session. */
#include "ctl_rig.h"
#include <tcpx/tcpx.h>

static tcpx_session *dialler_open(const struct rig *rig, tcpx_peer *out_peer)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = "dialler", .flags = TCPX_SESSION_NO_LOCAL,
		  .channels = 2, .silent_ms = 1000);
	TCPX_OPTS(tcpx_connect_opts, connect, .nonblocking = 1, .timeout_ns = 2 * CLOCK_S_NS);
	char text[SYS_ADDR_TEXT];
	tcpx_session *session;

	tcpx_log_set(NULL, NULL, TCPX_LOG_ERROR);
	assert_int_equal(tcpx_session_open(&opts, &session), TCPX_OK);
	assert_int_equal(tcpx_session_connect_to(session, sys_addr_text(&rig->addr, text), &connect,
						 out_peer),
			 TCPX_OK);
	return session;
}

/* It takes the control link and says no more; its kernel answers. Nobody may hear that the peer was
 * up: not suspect, not recovered. */
static void accepts_and_says_nothing(void **state)
{
	struct rig rig;
	tcpx_event event = {.sz = sizeof(event)};
	tcpx_peer peer, found;
	tcpx_session *session;

	(void)state;
	rig_open(&rig, "127.0.0.1");
	rig.auth = WIRE_AUTH_NONE;
	memset(rig.key, 0, sizeof(rig.key));
	session = dialler_open(&rig, &peer);
	RIG_UNTIL(&rig, tcpx_session_event(session, &event) == TCPX_OK);
	assert_int_equal(rig.nready, 1);
	assert_int_equal(event.type, TCPX_EVENT_PEER_DOWN);
	assert_int_equal(event.status, TCPX_ERR_TIMED_OUT);
	assert_int_equal(event.peer.id, peer.id);
	assert_int_equal(tcpx_peer_find(session, "acceptor", &found), TCPX_ERR_NOT_FOUND);
	tcpx_session_close(session);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepts_and_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
