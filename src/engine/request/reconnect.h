/* SPDX-License-Identifier: Apache-2.0 */
/* With the option `reconnect` a handle outlives its link: the first use after the link has ended
 * dials a new one. The peer of the first link keeps the handle, and its reconnect.now points to
 * the peer of the link that is used now. Requests and imports remember the handle, so they work
 * over the new link as well. */
#ifndef ENGINE_REQUEST_RECONNECT_H
#define ENGINE_REQUEST_RECONNECT_H

#include "engine/link/engine.h"

/* Called if the caller of connect asked for that: keeps what is needed to dial the peer again.
 * ERR_NO_MEMORY. */
tcpx_status reconnect_keep(struct engine_peer *peer, int64_t timeout_ns);
bool reconnect_kept(struct engine_peer *peer); /* whether it was kept */
/* Called after the name to connect to was looked up: keeps the peer's addresses. */
void reconnect_addresses(struct engine_peer *peer);
/* Gives what `from` keeps for dialling again to `to`, a link with the same session, unless `to`
 * has its own. */
void reconnect_pass(struct engine_peer *from, struct engine_peer *to);
/* Returns the handle whose link with that session has ended and may be dialled again; 0: there is
 * none. Its next use dials without a pause. */
uint64_t reconnect_find(struct engine_session *session, const uint8_t *uuid, bool keyed);
/* Returns the link of a handle, with a reference. If the link has ended and may be dialled again,
 * a new link is returned, which is dialled now, or after a pause if the last attempt began just
 * before. wait: false for a caller that does not learn how the attempt ends; during the pause it
 * gets the ended link. NULL: the handle is stale (ERR_STALE). Any thread, no lock held; does not
 * block. */
struct engine_peer *reconnect_use(struct engine_session *session, uint64_t peer_id, bool wait);
/* If the request is not active and its link has ended, moves the request to the link that its
 * handle leads to now, which may be a new one. False: the request was not moved. */
bool reconnect_request(struct engine_request *request, uint64_t id);
/* Control thread, called when a dial begins. The pause before the next attempt grows with each
 * one. */
void reconnect_attempted(struct engine_peer *peer);
/* peer/reconnect_dial.c, control thread: begins the dial that reconnect_use() asked for, now or
 * after the pause. */
void reconnect_start(struct engine_peer *peer);
/* Control thread, called when the link is up: the next attempt needs no pause. */
void reconnect_up(struct engine_peer *peer);
/* Control thread, called when an attempt has ended with `status`. False: the attempt before ended
 * with the same one, so it need not be logged. */
bool reconnect_failed_anew(struct engine_peer *peer, tcpx_status status);
/* Control thread, called when notifications were lost with a link. Returns how many
 * to log now, or 0 if they are logged later, because there is at most one line in 10 s. */
uint32_t reconnect_count_lost(struct engine_peer *peer, uint32_t notes);
/* Called when the last reference to the peer is dropped: gives up what the peer keeps for
 * dialling again. It is freed with the last peer that keeps it. */
void reconnect_put(struct engine_peer *peer);

#endif
