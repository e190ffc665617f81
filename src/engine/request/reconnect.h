/* SPDX-License-Identifier: Apache-2.0 */
/* With the option `reconnect` a handle outlives its link: the first use after the link has ended
 * dials a new link. The peer of the first link keeps the handle, and its reconnect.now points to
 * the peer of the link that is used at present. Requests and imported regions remember the handle,
 * so they work over the new link as well. */
#ifndef ENGINE_REQUEST_RECONNECT_H
#define ENGINE_REQUEST_RECONNECT_H

#include "engine/link/engine.h"

/* Called if the caller of connect set the option `reconnect`: keeps what is needed to dial the peer
 * again. Returns ERR_NO_MEMORY if that fails. */
tcpx_status reconnect_keep(struct engine_peer *peer, int64_t timeout_ns);
bool reconnect_kept(struct engine_peer *peer); /* whether the peer has such data */
/* Called after the name to connect to was looked up: keeps the peer's addresses. */
void reconnect_addresses(struct engine_peer *peer);
/* Moves what `from` keeps for dialling again to `to`, a link with the same session. Does nothing if
 * `to` has such data of its own. */
void reconnect_pass(struct engine_peer *from, struct engine_peer *to);
/* Returns the handle whose link with the session of this uuid has ended and may be dialled again,
 * or 0 if there is none; `keyed` as for peer_linked(). The next use of the handle dials without a
 * pause. */
uint64_t reconnect_find(struct engine_session *session, const uint8_t *uuid, bool keyed);
/* Returns the peer object of a handle's link, with a reference. If the link has ended and may be
 * dialled again, this is the peer of another link with the same session if one exists, else of a
 * new link. The new link is dialled at once, or after a pause if the last attempt was recent. If
 * `wait` is false, no link is made during the pause, unless none was attempted since a link was
 * last up; this is for callers that do not learn how an attempt ends. If no link is made, also
 * because memory is missing, returns the peer of the ended link. Returns NULL (ERR_STALE) if the
 * handle is stale. Any thread. The caller holds no lock. Does not block. */
struct engine_peer *reconnect_use(struct engine_session *session, uint64_t peer_id, bool wait);
/* If the request still has the handle `id`, is not active, and its link has ended, moves the
 * request to the current link of its peer handle, which may be new. Returns whether the request was
 * moved. */
bool reconnect_request(struct engine_request *request, uint64_t id);
/* Called on the control thread when a dial begins: each attempt makes the pause before the next one
 * longer. */
void reconnect_attempted(struct engine_peer *peer);
/* In peer/reconnect_dial.c. Called on the control thread: begins the dial that reconnect_use()
 * asked for, at once or after the pause. */
void reconnect_start(struct engine_peer *peer);
/* Called on the control thread when the link is up: the pause after the next attempt is the
 * shortest. */
void reconnect_up(struct engine_peer *peer);
/* Called on the control thread when an attempt has ended with `status`. Returns false if the
 * attempt before had the same status, so that this one need not be logged. */
bool reconnect_failed_anew(struct engine_peer *peer, tcpx_status status);
/* Called on the control thread when notifications were lost with a link. Returns how many to log,
 * or 0 if they are logged later, because there is at most one log line in 10 s. */
uint32_t reconnect_count_lost(struct engine_peer *peer, uint32_t notes);
/* Called when the last reference to the peer is dropped: gives up what the peer keeps for dialling
 * again. The data is freed with the last peer that shares it. */
void reconnect_put(struct engine_peer *peer);

#endif
