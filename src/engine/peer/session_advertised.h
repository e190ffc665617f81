/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that a session advertises to its peers. */
#ifndef ENGINE_PEER_SESSION_ADVERTISED_H
#define ENGINE_PEER_SESSION_ADVERTISED_H

#include "base/config.h"
#include "engine/link/engine.h"
#include "wire/hello.h"

tcpx_status session_published_check(void); /* checks TCPX_CTRL_IP. ERR_INVALID: it is no address */
/* Finds the addresses that the option `advertise` names. Waits for name look-ups. ERR_NOT_FOUND;
 * ERR_TIMED_OUT; ERR_INVALID; ERR_LIMIT: there are too many. */
tcpx_status session_advertised_find(const struct engine_session *session,
				    struct wire_address *out_addrs, uint32_t *out_count);
/* Called after the session has begun to listen: fills in the addresses to advertise, and returns
 * their number. */
uint32_t session_addresses(struct engine_session *session,
			   struct wire_address addrs[WIRE_ADDR_MAX]);

/* Adds the name and text of the option to the last error: by its environment variable if the text
 * is from there, else by the field's name. Returns the error's status. */
tcpx_status session_option_error(enum config_id id, const char *text);

#endif
