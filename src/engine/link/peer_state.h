/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a peer. The header that a comment names declares the functions of that part. */
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

/* The peer as one of the session's inbound peers: peer/inbound.h. */
struct peer_inbound {
	bool live; /* it is counted in session_inbound.live */
	uint64_t source;
	struct list_node half, dead; /* in session_inbound.half; in session_inbound.dead */
};

/* The peer's data channels through shared memory: peer/peer_local.h. */
struct peer_local {
	bool answers;	/* the peer answers whether it accepts a channel */
	uint32_t tries; /* dials that the peer ended without an answer */
	struct peer_local_dial *dial[CORE_CHANNELS_MAX];
	bool have_offer; /* the peer has offered shared memory, and this side has not given it up */
	bool offered;	 /* this side has offered shared memory */
	uint8_t nonce[LOCAL_NONCE_BYTES];
	char name[LOCAL_NAME_MAX];
};

/* Where the peer can be reached: peer/peer_route.h. */
struct peer_address {
	struct sockaddr_storage known[WIRE_ADDR_MAX];
	uint32_t count;
	struct sockaddr_storage remote; /* address of the control connection's other end */
};

#define LOSSES_WHY_BYTES 320u

/* Lost connections that are not logged yet: peer/losses.h. Control thread. */
struct peer_losses {
	uint32_t channels;	    /* number of channels that were lost */
	const char *control;	    /* why the control connection was lost; NULL: it was not */
	int64_t since_ns;	    /* when the first of these connections was lost */
	char why[LOSSES_WHY_BYTES]; /* the first channel that was lost, and why */
};

/* What was posted while the peer connects: request/pending.h. Under link.lock. */
struct peer_pending {
	struct list_node requests, notes;
	size_t note_bytes;
};

/* Refused requests that wait for the peer to say goodbye, or not: request/goodbye_wait.h. */
struct peer_goodbye_wait {
	struct list_node waiting; /* under lock: requests that were refused */
	struct sys_timer timer;	  /* control thread */
};

/* How the peer is dialled again: request/reconnect.h. Under session.lock. */
struct peer_reconnect {
	struct reconnect_target *target; /* what is needed to dial it again; or NULL */
	/* the peer that the handle refers to now, after this one has ended */
	struct engine_peer *now;
	/* this peer was made for another peer's handle, and is freed when it ends */
	bool successor;
	/* the dial has not begun: it waits for a pause to end, or for the peer's own dial */
	bool awaiting;
	int64_t at_ns; /* of a successor: when the dial begins */
};

#endif
