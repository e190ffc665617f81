/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the files in request/, and those that the public calls about requests and queues
 * use. */
#ifndef ENGINE_REQUEST_REQUEST_CALLS_H
#define ENGINE_REQUEST_REQUEST_CALLS_H

#include "engine/channel/chan_calls.h"
#include "engine/request/goodbye_wait.h"
#include "engine/request/pending.h"
#include "engine/request/ready.h"
#include "engine/request/reconnect.h"

tcpx_status engine_accept(struct engine_session *session, int64_t timeout_ns, tcpx_peer *out_peer);
tcpx_status engine_event_take(struct engine_session *session, tcpx_event *out_event);
uint32_t engine_poll(struct engine_session *session, tcpx_completion *completions, uint32_t max);
tcpx_status engine_wait(struct engine_session *session, int64_t timeout_ns);
int engine_session_fd(struct engine_session *session);
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
void session_accepted(struct engine_session *session, struct engine_peer *peer);

/* In request_life.c. Called under link.lock when an active request ends, even if the core never had
 * it: makes its completion, and wakes the threads that wait for the request. */
void request_ended(struct engine_request *request);
/* Called under link.lock when the request's memory is no longer used: releases its regions and, if
 * it has the turn for solo transfers, gives the turn back (path/solo.c). */
void request_quiet(struct engine_request *request);
/* Called under link.lock: changes the state, and wakes the threads that wait for the request. */
void request_set_state(struct engine_request *request, uint32_t state);
/* In request_opts.c. Checks the options and stores them in the request. */
tcpx_status request_take_options(struct engine_request *request, const tcpx_request_opts *opts);
/* In request_life.c. Called under link.lock: chooses the path of an active request, gives the
 * request to the core, and returns the core's status. On an error the caller must release the
 * regions. */
tcpx_status request_hand_over(struct engine_request *request);
void request_io_put(struct engine_request *request); /* releases the regions */
void request_free(void *object);
/* Returns the request of a handle, with a reference. Returns NULL, with ERR_STALE as the last
 * error, if the handle is stale. Another thread may release the handle at any time, so the caller
 * must compare slot.id again under link.lock. request_put() must be called with no lock held. */
struct engine_request *request_get(struct engine_session *session, uint64_t id);
void request_put(struct engine_request *request);
tcpx_status request_stale(void);	/* sets the error ERR_STALE */
tcpx_status request_still_active(void); /* sets the error ERR_STATE */
/* Returns the request's peer, with a reference. request_lock() also takes link.lock of the peer;
 * request_unlock() releases the lock and drops the reference. */
struct engine_peer *request_peer(struct engine_request *request);
struct engine_peer *request_lock(struct engine_request *request);
void request_unlock(struct engine_peer *peer);

/* In notes.c. */
void note_published(struct engine_peer *peer, struct core_notify_in *msg);
void notes_drop_all(struct engine_session *session);

/* In peer_make.c, for any thread. peer_create() makes a peer with a handle, or returns NULL. After
 * peer_enlist(), look-ups by uuid, name or address find the peer. */
struct engine_peer *peer_create(struct engine_session *session);
void peer_enlist(struct engine_peer *peer);

#endif
