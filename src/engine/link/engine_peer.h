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
	struct link link; /* first: the handle is its slot */
	uint64_t slot_id; /* its handle, even after it was hidden */
	struct peer_identity who;
	_Atomic uint32_t state; /* enum tcpx_peer_state; futex */
	tcpx_error error;	/* lock: why it is dead */
	const char *transport;
	uint32_t nbulk, chunk_bytes;
	uint64_t post_seq;		       /* lock */
	uint64_t rate[2];		       /* lock: bytes a second of READs, WRITEs */
	uint64_t unread;		       /* session.queue.lock: notifications */
	struct peer_pending pending;	       /* lock: posted while it connects */
	struct peer_goodbye_wait goodbye_wait; /* lock: refused requests that wait for a goodbye */
	struct peer_reconnect reconnect;       /* session.lock */
	struct engine_shares *shared;	       /* lock: memory shared with it; or NULL */
	struct engine_peer_comms *comms;       /* its plugin channels; or NULL */

	/* control thread only */
	struct peer_address address;
	struct peer_dialling dialling;
	struct peer_control control;
	struct peer_rails rails;
	struct peer_losses losses;
	struct peer_local shared_memory; /* dials of channels through it */
	struct peer_inbound inbound;
	struct list_node node;	      /* session->peer_list */
	struct list_node accept_node; /* session->queue.accepts, with a reference */
	bool dialler, counted_up, released, died;
	bool exposed; /* session.lock: the application had its handle before it was up */
};

#endif
