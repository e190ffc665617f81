/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that a session advertises to its peers. */
#ifndef ENGINE_PEER_SESSION_ADVERTISED_H
#define ENGINE_PEER_SESSION_ADVERTISED_H

#include "base/config.h"
#include "engine/link/engine.h"
#include "wire/hello.h"

/* Returns ERR_INVALID if TCPX_CTRL_IP is set but is not an IP address. */
tcpx_status session_published_check(void);
/* Finds the addresses that the option `advertise` names. Blocks during name look-ups. Returns
 * ERR_NOT_FOUND, ERR_TIMED_OUT or ERR_INVALID if an entry cannot be resolved, and ERR_LIMIT if
 * there are too many addresses. */
tcpx_status session_advertised_find(const struct engine_session *session,
				    struct wire_address *out_addrs, uint32_t *out_count);
/* Fills in the addresses to advertise, and returns their number. Called after the session has begun
 * to listen. */
uint32_t session_addresses(struct engine_session *session,
			   struct wire_address addrs[WIRE_ADDR_MAX]);

/* Adds the name of an option and its value `text` to the last error, and returns the status of the
 * error. If the environment or config_set() gave the option the value `text`, the name is that of
 * the environment variable, else that of the option's field. */
tcpx_status session_option_error(enum config_id id, const char *text);

#endif
