/* SPDX-License-Identifier: Apache-2.0 */
/* A session over loopback and the session fuzzer's raw peer, driven by the test's own thread. */
#ifndef UNIT_RAW_RIG_H
#define UNIT_RAW_RIG_H

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../fuzz/session_raw.h"
#include "unit.h"
#include <tcpx/tcpx.h>

static tcpx_session *session;
static uint16_t port;
static struct raw raw;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)data;
	(void)size;
	return 0; /* the raw peer's header wants one */
}

/* The next event of that type. */
static inline tcpx_event await(enum tcpx_event_type type)
{
	struct pollfd pfd = {.fd = tcpx_session_fd(session), .events = POLLIN};
	tcpx_event event = {.sz = sizeof(event)};

	for (int i = 0; i < 1000; i++) { /* a wide guard */
		while (tcpx_session_event(session, &event) == TCPX_OK)
			if (event.type == type)
				return event;
		(void)poll(&pfd, 1, 20);
	}
	fail_msg("no event of type %d came", type);
	return event;
}

static inline void connect_raw(void)
{
	tcpx_peer peer;

	raw_connect(&raw, port);
	assert_int_equal(tcpx_session_accept(session, 20000000000, &peer), TCPX_OK);
	(void)await(TCPX_EVENT_PEER_UP);
}

enum place { CONTROL, PRIO, BULK, PLACES };

/* Bytes on one of its connections, whatever they are. */
static inline void say(enum place place, const void *bytes, size_t len)
{
	int fd = place == CONTROL ? raw.ctl.fd : raw.chan[place == PRIO ? 0 : 1].fd;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
}

static inline int open_session(void **state)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = "victim", .bind = "127.0.0.1",
		  .flags = TCPX_SESSION_NO_LOCAL);

	(void)state;
	tcpx_log_set(NULL, NULL, TCPX_LOG_ERROR);
	raw.secret = (const uint8_t *)"never to be seen by it";
	raw.secret_bytes = 22;
	if (tcpx_session_open(&opts, &session))
		return -1;
	return tcpx_session_listen(session, NULL, &port);
}

static inline int close_session(void **state)
{
	(void)state;
	tcpx_session_close(session);
	for (uint32_t i = 0; i < RAW_CHANNELS; i++)
		free(raw.chan[i].rest);
	return 0;
}

#endif
