/* SPDX-License-Identifier: Apache-2.0 */
/* The functions behind the public calls, which have checked the arguments; include/tcpx describes
 * the errors. Calls about peers and requests are in peer_calls.h and request_calls.h, which this
 * header includes. */
#ifndef ENGINE_SESSION_CALLS_H
#define ENGINE_SESSION_CALLS_H

#include "engine/link/import.h"
#include "engine/peer/peer_calls.h"
#include "engine/session/session_deadline.h"
#include "engine/session/session_listen.h"
#include "engine/session/session_opts.h"

tcpx_status engine_session_open(const tcpx_session_opts *opts, struct engine_session **out_session);
void engine_session_close(struct engine_session *session);
/* Returns OK; ERR_INVALID if `session` is NULL or closed; or ERR_FORKED if it was opened before
 * fork(). */
tcpx_status engine_session_check(struct engine_session *session);
tcpx_status engine_listen(struct engine_session *session, uint32_t port, uint32_t retries,
			  uint16_t *out_port);
const char *engine_trust(struct engine_session *session);

tcpx_status engine_region_register(struct engine_session *session, void *addr, uint64_t length,
				   const tcpx_region_opts *opts, tcpx_region *out_region);
tcpx_status engine_region_deregister(struct engine_session *session, uint64_t id,
				     int64_t timeout_ns);
tcpx_status engine_region_export(struct engine_session *session, uint64_t id, uint8_t *token);
tcpx_status engine_region_token_for(struct engine_session *session, uint64_t id, uint64_t peer_id,
				    uint8_t *token);
tcpx_status engine_region_import(struct engine_session *session, uint64_t peer_id,
				 const void *token, size_t len, tcpx_region *out_region);

void import_free(void *object); /* called when the last reference was dropped */

#endif
