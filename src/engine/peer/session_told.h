/* SPDX-License-Identifier: Apache-2.0 */
/* Where peers are told that they reach a session. */
#ifndef ENGINE_PEER_SESSION_TOLD_H
#define ENGINE_PEER_SESSION_TOLD_H

#include "base/config.h"
#include "wire/hello.h"

struct engine_session;

struct session_told {
	char *advertise; /* as it was written, or NULL */
	/* what it means, since the session listens; port 0: the session's own */
	struct wire_address addrs[WIRE_ADDR_MAX];
	uint32_t count;
};

tcpx_status session_published_check(void); /* ERR_INVALID: TCPX_CTRL_IP is no address */
/* What advertise means. Waits for names: ERR_NOT_FOUND, ERR_TIMED_OUT; ERR_INVALID; ERR_LIMIT. */
tcpx_status session_told_find(const struct engine_session *session, struct wire_address *out_addrs,
			      uint32_t *out_count);
/* Once it listens. */
uint32_t session_addresses(struct engine_session *session,
			   struct wire_address addrs[WIRE_ADDR_MAX]);

/* The error that stands, with the option's text and whether the environment said it. */
tcpx_status session_option_error(enum config_id id, const char *text);

#endif
