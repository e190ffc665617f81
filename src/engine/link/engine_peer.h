/* SPDX-License-Identifier: Apache-2.0 */
/* A peer: the session at the other end of a link, how it is reached, and whether it is alive. */
#ifndef ENGINE_LINK_ENGINE_PEER_H
#define ENGINE_LINK_ENGINE_PEER_H

#include "engine/link/control_state.h"
#include "engine/link/dial_state.h"
#include "engine/link/engine_link.h"
#include "engine/link/identity_state.h"
#include "engine/link/peer_state.h"
#include "engine/link/rail_state.h"

#include <tcpx/tcpx.h>

struct engine_chan;
struct engine_peer_comms;
struct engine_shares;

struct engine_peer {
	struct link link; /* must be first, since the peer's handle is the one of its link */
	uint64_t slot_id; /* the peer's handle, kept when the application may no longer find it */
	struct peer_identity who;
	_Atomic uint32_t state; /* enum tcpx_peer_state; futex */
	tcpx_error error;	/* under lock: why the peer is dead */
	const char *transport;
	uint32_t nbulk, chunk_bytes; /* agreed by both ends; nbulk: number of bulk channels */
	uint64_t post_seq;	     /* under lock: number of the last post */
	/* under lock: bytes a second of the last READs; of the last WRITEs */
	uint64_t rate[2];
	/* under session.queue.lock: number of its notifications that the application has not
	 * read */
	uint64_t unread;
	/* under lock: what was posted while the peer connects */
	struct peer_pending pending;
	/* under lock: refused requests that wait for the peer to say goodbye */
	struct peer_goodbye_wait goodbye_wait;
	struct peer_reconnect reconnect; /* under session.lock */
	/* under lock: our memory that the peer maps; NULL: none */
	struct engine_shares *shared;
	struct engine_peer_comms *comms; /* plugin channels to the peer; NULL: none */

	/* Control thread only. */
	struct peer_address address;
	struct peer_dialling dialling;
	struct peer_control control;
	struct peer_rails rails;
	struct peer_losses losses;
	struct peer_local shared_memory; /* how its channels through shared memory are dialled */
	struct peer_inbound inbound;
	struct list_node node;	      /* session->peer_list */
	struct list_node accept_node; /* session->queue.accepts, with a reference */
	bool dialler, counted_up, released, died;
	bool exposed; /* under session.lock: the application got its handle before it was up */
};

#endif
