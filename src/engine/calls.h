/* SPDX-License-Identifier: Apache-2.0 */
/* What the public calls do, behind their argument checks. Errors are described in include/tcpx. */
#ifndef ENGINE_CALLS_H
#define ENGINE_CALLS_H

#include "engine/engine.h"

/* The next step of a session that may not leave loopback. */
#define ENGINE_NEXT_KEY                                                                            \
	"make one with 'tcpx key new FILE' and set TCPX_KEY_FILE on both sides, or go without "    \
	"(--insecure, TCPX_SESSION_INSECURE)"

tcpx_status engine_session_open(const tcpx_session_opts *opts, struct engine_session **out_session);
void engine_session_close(struct engine_session *session);
/* TCPX_OK, ERR_INVALID or ERR_FORKED. */
tcpx_status engine_session_check(struct engine_session *session);
tcpx_status engine_listen(struct engine_session *session, uint32_t port, uint32_t retries,
			  uint16_t *out_port);
tcpx_status engine_info(struct engine_session *session, void *buf, size_t cap, size_t *out_len);
tcpx_status engine_connect(struct engine_session *session, const struct wire_info *info,
			   const char *address, const tcpx_connect_opts *opts, tcpx_peer *out_peer);
tcpx_status engine_accept(struct engine_session *session, int64_t timeout_ns, tcpx_peer *out_peer);
tcpx_status engine_disconnect(struct engine_session *session, uint64_t peer_id);
tcpx_status engine_flush(struct engine_session *session, uint64_t peer_id, int64_t timeout_ns);
tcpx_status engine_peer_find(struct engine_session *session, const char *name, tcpx_peer *out_peer);
tcpx_status engine_channel_query(struct engine_session *session, uint64_t peer_id, uint32_t index,
				 tcpx_channel_info *out_info);
tcpx_status engine_peer_query(struct engine_session *session, uint64_t peer_id,
			      tcpx_peer_info *out_info);
tcpx_status engine_peer_error(struct engine_session *session, uint64_t peer_id,
			      tcpx_error *out_error);
tcpx_status engine_event_take(struct engine_session *session, tcpx_event *out_event);
/* ready.c */
uint32_t engine_poll(struct engine_session *session, tcpx_completion *completions, uint32_t max);
tcpx_status engine_wait(struct engine_session *session, int64_t timeout_ns);
int engine_session_fd(struct engine_session *session);
void engine_counters(struct engine_session *session, tcpx_counters *out_counters);
const char *engine_trust(struct engine_session *session);
void engine_key(struct engine_session *session, char out_key[65]); /* hex, or "" */

tcpx_status engine_region_register(struct engine_session *session, void *addr, uint64_t length,
				   const tcpx_region_opts *opts, tcpx_region *out_region);
tcpx_status engine_region_deregister(struct engine_session *session, uint64_t id,
				     int64_t timeout_ns);
tcpx_status engine_region_export(struct engine_session *session, uint64_t id, uint8_t *token);
tcpx_status engine_region_token_for(struct engine_session *session, uint64_t id, uint64_t peer_id,
				    uint8_t *token);
tcpx_status engine_region_import(struct engine_session *session, uint64_t peer_id,
				 const void *token, size_t len, tcpx_region *out_region);

tcpx_status engine_request_prepare(struct engine_session *session, uint64_t peer_id,
				   enum tcpx_op op, const tcpx_segment *segments, size_t count,
				   const tcpx_request_opts *opts, tcpx_request *out_request);
tcpx_status engine_request_notify(struct engine_session *session, uint64_t request,
				  const void *data, size_t bytes, int has);
tcpx_status engine_request_post(struct engine_session *session, uint64_t id);
tcpx_status engine_request_post_many(struct engine_session *session, const tcpx_request *requests,
				     uint32_t count, tcpx_status *statuses);
tcpx_status engine_request_test(struct engine_session *session, uint64_t id,
				tcpx_completion *out_completion);
tcpx_status engine_request_wait(struct engine_session *session, uint64_t id, int64_t timeout_ns,
				tcpx_completion *out_completion);
tcpx_status engine_request_cancel(struct engine_session *session, uint64_t id);
tcpx_status engine_request_release(struct engine_session *session, uint64_t id);
tcpx_status engine_request_error(struct engine_session *session, uint64_t id,
				 tcpx_error *out_error);
tcpx_status engine_notify_send(struct engine_session *session, uint64_t peer_id, const void *data,
			       size_t bytes);
tcpx_status engine_notify_take(struct engine_session *session, int64_t timeout_ns,
			       tcpx_notification *out_notification);
void engine_note_release(struct engine_session *session, tcpx_notification *notification);

/* The live peer of a handle with a reference, or NULL and ERR_STALE as the last error. */
struct engine_peer *engine_peer_get(struct engine_session *session, uint64_t peer_id);
void session_accepted(struct engine_session *session, struct engine_peer *peer);

#endif
