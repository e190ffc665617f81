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

/* Its place among the inbound peers of the session: peer/inbound.h. */
struct peer_inbound {
	bool live; /* it counts in session_inbound.live */
	uint64_t source;
	struct list_node half, dead;
};

/* Its data channels through shared memory: peer/peer_local.h. */
struct peer_local {
	bool answers;	/* the peer answers whether it takes a channel */
	uint32_t tries; /* dials that it closed without an answer */
	struct peer_local_dial *dial[CORE_CHANNELS_MAX];
	bool have_offer; /* the peer offers shared memory, */
	bool offered;	 /* or this side does */
	uint8_t nonce[LOCAL_NONCE_BYTES];
	char name[LOCAL_NAME_MAX];
};

/* Where it can be reached: peer/peer_route.h. */
struct peer_address {
	struct sockaddr_storage known[WIRE_ADDR_MAX];
	uint32_t count;
	struct sockaddr_storage remote; /* of the control link */
};

#define LOSSES_WHY_BYTES 320u

/* What it lost and is not in the log yet: peer/losses.h. Control thread. */
struct peer_losses {
	uint32_t channels;	    /* their number */
	const char *control;	    /* why the control link was lost; or NULL */
	int64_t since_ns;	    /* the first of them */
	char why[LOSSES_WHY_BYTES]; /* the first channel, and why it was lost */
};

/* What was posted while it connects: request/pending.h. link.lock. */
struct peer_pending {
	struct list_node requests, notes;
	size_t note_bytes;
};

/* Its refused requests that wait for a goodbye: request/goodbye_wait.h. */
struct peer_goodbye_wait {
	struct list_node waiting; /* lock: requests that were refused */
	struct sys_timer timer;	  /* control thread */
};

/* How it is dialled again: request/reconnect.h. session.lock. */
struct peer_reconnect {
	struct reconnect_target *target; /* how to dial it again; or NULL */
	struct engine_peer *now; /* the present link of the handle, after its own link ended */
	bool successor;		 /* made for the handle of another peer: its end frees it */
	bool awaiting;		 /* its dial waits: for a pause to end, or for the peer's dial */
	int64_t at_ns;		 /* successor: when the dial begins */
};

#endif
