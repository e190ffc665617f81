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
	struct link link; /* must be the first member, since a peer's handle is that of its link */
	/* the handle that the application has for the peer; stays set when link.slot.id is
	 * cleared */
	uint64_t app_handle;
	struct peer_identity who;
	_Atomic uint32_t state; /* enum tcpx_peer_state; a futex */
	tcpx_error error;	/* under link.lock: why the peer is dead */
	const char *transport;
	/* agreed by both ends: number of bulk channels, plugin channels included; bytes of a
	 * chunk */
	uint32_t nbulk, chunk_bytes;
	uint64_t post_seq; /* under link.lock: number of the last post */
	/* under link.lock: mean bytes per second of the last large READs; of the last large
	 * WRITEs */
	uint64_t rate[2];
	/* under session.queue.lock: number of the peer's notifications that the application has not
	 * read */
	uint64_t unread;
	/* under link.lock: what was posted while the peer connects */
	struct peer_pending pending;
	/* under link.lock: requests that the peer refused and that wait for the peer to say
	 * goodbye */
	struct peer_goodbye_wait goodbye_wait;
	struct peer_reconnect reconnect; /* how the peer is dialled again */
	/* under link.lock: memory of either side that the other side maps; NULL: none */
	struct engine_shares *shared;
	struct engine_peer_comms *comms; /* plugin channels to the peer; NULL: none */

	/* Once the peer is in session->peer_list, only the control thread uses the fields below,
	 * except where a lock is named. Other threads also read `died` and `dialler` under
	 * session.lock, address.remote under link.lock (of a peer that was up, also under
	 * session.lock), and dialling.duplicate_of after the dial. */
	struct peer_address address;
	struct peer_dialling dialling;
	struct peer_control control;
	struct peer_rails rails;
	struct peer_losses losses;
	struct peer_local shared_memory; /* how channels through shared memory are dialled */
	struct peer_inbound inbound;
	struct list_node node;	      /* entry in session->peer_list; under session.lock */
	struct list_node accept_node; /* entry in session->queue.accepts, with a reference */
	bool dialler;		      /* this end dialled the peer */
	bool counted_up, released, died;
	/* under session.lock: the application has the handle, even if the peer was never up */
	bool exposed;
};

#endif
