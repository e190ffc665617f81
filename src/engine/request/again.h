/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With the option `reconnect` a handle outlives its link: the next use after the link ended dials a
 * new one. The peer that was connected first keeps the handle, and `now` points to the present
 * link. Requests and imports remember the handle, so they work over the new link, too.
 */
#ifndef ENGINE_REQUEST_AGAIN_H
#define ENGINE_REQUEST_AGAIN_H

#include <stdbool.h>
#include <stdint.h>

#include <tcpx/types.h>

struct engine_again;
struct engine_peer;
struct engine_request;
struct engine_session;

/* Of one peer; session.lock. */
struct peer_reconnect {
	struct engine_again *kept; /* how to dial it again; or NULL */
	struct engine_peer *now;   /* the present link of the handle, after its own link ended */
	bool lent;		   /* made for the handle of another peer: its end frees it */
	bool awaiting;		   /* its dial waits: for a pause to end, or for the peer's dial */
	int64_t at_ns;		   /* lent: when the dial begins */
};

/* Keeps a copy of what is needed to dial the peer again. ERR_NO_MEMORY. */
tcpx_status again_keep(struct engine_peer *peer, int64_t timeout_ns);
bool again_kept(struct engine_peer *peer);
/* Keeps the peer's addresses, after its name was looked up. */
void again_addresses(struct engine_peer *peer);
/* Moves what `from` keeps to `to`, a link with the same session, unless `to` has its own. */
void again_pass(struct engine_peer *from, struct engine_peer *to);
/* A handle whose link with that session has ended and may be dialled again; the next use dials it
 * without a pause. 0: there is none. */
uint64_t again_find(struct engine_session *session, const uint8_t *uuid, bool keyed);
/*
 * The link of a handle, with a reference. A link that ended is dialled again: now, or after a pause
 * when the last attempt has only just begun. rest: false for a caller that does not learn how the
 * attempt ends; during the pause it gets the ended link. NULL: ERR_STALE. Any thread, no lock held;
 * does not block.
 */
struct engine_peer *again_use(struct engine_session *session, uint64_t peer_id, bool rest);
/* Moves a request that is not active from a link that ended to the handle's present link. False:
 * it did not move. */
bool again_request(struct engine_request *request, uint64_t id);
/* Control thread: a dial begins. The pause before the next one grows with each attempt. */
void again_attempted(struct engine_peer *peer);
/* peer/again_dial.c, control thread: begins the dial that again_use() asked for. */
void again_start(struct engine_peer *peer);
/* Control thread: the link is up; the next attempt needs no pause. */
void again_up(struct engine_peer *peer);
/* The peer's last reference is gone. */
void again_put(struct engine_peer *peer);

#endif
