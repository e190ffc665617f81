/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of struct engine_peer. The header named in a comment declares the functions of the part. */
#ifndef ENGINE_LINK_PEER_STATE_H
#define ENGINE_LINK_PEER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"
#include "core/link.h"
#include "net/local/local.h"
#include "sys/loop.h"
#include "wire/hello.h"

struct peer_local_dial;
struct reconnect_target;

/* Whether and how the peer counts as an inbound peer of the session: peer/inbound.h. */
struct peer_inbound {
	bool live; /* the peer is inbound; session_inbound.live counts it until it dies */
	uint64_t source;
	struct list_node half, dead; /* entries in session_inbound.half and session_inbound.dead */
};

/* The peer's data channels through shared memory: peer/peer_local.h. */
struct peer_local {
	bool answers;	/* the peer tells a dialler whether it accepts the channel */
	uint32_t tries; /* dials that ended without an answer before the peer was up */
	struct peer_local_dial *dial[CORE_CHANNELS_MAX];
	/* the peer has offered shared memory, and this side has not given up using it */
	bool have_offer;
	bool offered; /* this side has offered shared memory */
	uint8_t nonce[LOCAL_NONCE_BYTES];
	char name[LOCAL_NAME_MAX];
};

/* Where the peer can be reached: peer/peer_route.h. */
struct peer_address {
	struct sockaddr_storage known[WIRE_ADDR_MAX];
	uint32_t count;
	struct sockaddr_storage remote; /* the peer's address on the control connection */
};

#define LOSSES_WHY_BYTES 320u

/* Lost connections that are not logged yet: peer/losses.h. Only the control thread uses the
 * struct. */
struct peer_losses {
	uint32_t channels;	    /* number of channels that were lost */
	const char *control;	    /* why the control connection was lost; NULL: it was not lost */
	int64_t since_ns;	    /* when the first of the connections was lost */
	char why[LOSSES_WHY_BYTES]; /* names the first lost channel, and the reason */
};

/* What was posted while the peer connects: request/pending.h. Under link.lock. */
struct peer_pending {
	struct list_node requests, notes;
	size_t note_bytes;
	/* control thread: length of a notification that was dropped and not logged yet; or 0 */
	size_t too_long;
};

/* Requests that the peer refused, and that wait a while for the peer to say goodbye:
 * request/goodbye_wait.h. */
struct peer_goodbye_wait {
	struct list_node waiting; /* under link.lock: the requests that wait */
	struct sys_timer timer;	  /* control thread: ends the wait */
};

/* State for dialling a peer again after its link has ended: request/reconnect.h. The first peer of
 * a handle keeps the handle, which then leads to another peer. Once the peer is in
 * session->peer_list, `successor` and `at_ns` do not change, only the control thread uses
 * `awaiting`, and the others are under session.lock. */
struct peer_reconnect {
	struct reconnect_target *target; /* what is needed to dial the peer again; or NULL */
	/* of the first peer of a handle: the peer to which the handle leads now; NULL: this one */
	struct engine_peer *now;
	/* this peer was made for the handle of a peer whose link had ended; it is freed when it
	 * ends itself */
	bool successor;
	/* this side waits before it dials; if the peer dials meanwhile, that dial becomes the
	 * link */
	bool awaiting;
	int64_t at_ns; /* if `successor` is set: when the dial begins */
};

#endif
