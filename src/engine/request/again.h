/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handle outlives its link where the peer's option `reconnect` is on: the next use after the link
 * ended dials a new one. The peer that was connected first keeps the handle, `now` is the link that
 * it leads to. Requests and imports remember the handle, so they serve the new link too.
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
	struct engine_again *kept; /* how it is dialled again; or NULL */
	struct engine_peer *now;   /* where its handle leads since its own link ended */
	bool lent;		   /* made for another's handle: it goes when it ends */
	bool awaiting;		   /* its dial waits: for a rest, or for the peer's own */
	int64_t at_ns;		   /* lent: when the dial begins */
};

/* The peer's dial, whose fields are filled, can be made again. ERR_NO_MEMORY. */
tcpx_status again_keep(struct engine_peer *peer, int64_t timeout_ns);
bool again_kept(struct engine_peer *peer);
/* The addresses of a name that was looked up. */
void again_addresses(struct engine_peer *peer);
/* What `from` keeps goes to `to`, which is linked with the same session, unless `to` has its own.
 */
void again_pass(struct engine_peer *from, struct engine_peer *to);
/* The handle's link is dialled by whoever asks next, without a rest. 0: no ended link with that
 * session is dialled again. */
uint64_t again_find(struct engine_session *session, const uint8_t *uuid, bool keyed);
/*
 * The link of a handle, with a reference: one that ended is dialled again, now or, when the last
 * attempt began just before, after a rest. rest: false for a caller that would not hear of the
 * attempt's end; during the rest it gets the link that ended. NULL: ERR_STALE. Any thread, no lock
 * held; waits for nothing.
 */
struct engine_peer *again_use(struct engine_session *session, uint64_t peer_id, bool rest);
/* A request that is not active, of a link that ended, moves to the handle's link. */
bool again_request(struct engine_request *request, uint64_t id);
/* Control thread: a dial begins. Only attempts count for the rest before the next one. */
void again_attempted(struct engine_peer *peer);
/* again_dial.c, control thread: the dial that again_use left to it. */
void again_start(struct engine_peer *peer);
/* Control thread: the link is up. */
void again_up(struct engine_peer *peer);
/* The peer's last reference went. */
void again_put(struct engine_peer *peer);

#endif
