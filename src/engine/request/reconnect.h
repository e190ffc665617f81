/* SPDX-License-Identifier: Apache-2.0 */
/* With the option `reconnect` a handle outlives its link: the next use after the link ended dials
 * a new one. The peer of the first link keeps the handle, and its `now` points to the peer of the
 * link that is used now. Requests and imports remember the handle, so they work over the new link
 * as well. */
#ifndef ENGINE_REQUEST_RECONNECT_H
#define ENGINE_REQUEST_RECONNECT_H

#include "engine/link/engine.h"

/* Keeps what is needed to dial the peer again. ERR_NO_MEMORY. */
tcpx_status reconnect_keep(struct engine_peer *peer, int64_t timeout_ns);
bool reconnect_kept(struct engine_peer *peer);
/* Keeps the peer's addresses, after its name was looked up. */
void reconnect_addresses(struct engine_peer *peer);
/* Moves the target of `from` to `to`, a link with the same session, unless `to` has its own. */
void reconnect_pass(struct engine_peer *from, struct engine_peer *to);
/* A handle whose link with that session has ended and may be dialled again. The next use dials it
 * without a pause. 0: there is none. */
uint64_t reconnect_find(struct engine_session *session, const uint8_t *uuid, bool keyed);
/* The link of a handle, with a reference. A link that has ended is dialled again: now, or after a
 * pause if the last attempt began only just before. wait: false for a caller that does not learn
 * how the attempt ends; during the pause it gets the ended link. NULL: ERR_STALE. Any thread, no
 * lock held; does not block. */
struct engine_peer *reconnect_use(struct engine_session *session, uint64_t peer_id, bool wait);
/* Moves a request that is not active from a link that has ended to the link that the handle has
 * now. False: it was not moved. */
bool reconnect_request(struct engine_request *request, uint64_t id);
/* Control thread: a dial begins. The pause before the next attempt grows with each one. */
void reconnect_attempted(struct engine_peer *peer);
/* peer/reconnect_dial.c, control thread: begins the dial that reconnect_use() asked for. */
void reconnect_start(struct engine_peer *peer);
/* Control thread: the link is up, so the next attempt needs no pause. */
void reconnect_up(struct engine_peer *peer);
/* Control thread: an attempt has ended. False: the one before it ended with the same status. */
bool reconnect_failed_anew(struct engine_peer *peer, tcpx_status status);
/* Control thread: so many notifications were lost with a link. Returns how many are to be logged
 * now, or 0: they are logged later, with at most one line in 10 s. */
uint32_t reconnect_count_lost(struct engine_peer *peer, uint32_t notes);
/* The last reference to the peer was dropped. */
void reconnect_put(struct engine_peer *peer);

#endif
