/* SPDX-License-Identifier: Apache-2.0 */
/* A peer: the session at the other end of a link, how it is reached, and whether it is alive. */
#ifndef ENGINE_PEER_ENGINE_PEER_H
#define ENGINE_PEER_ENGINE_PEER_H

#include "ctl/conn.h"
#include "engine/link/engine_link.h"
#include "engine/link/identity_state.h"
#include "engine/peer/control_state.h"
#include "engine/peer/dial_state.h"
#include "engine/peer/inbound.h"
#include "engine/peer/losses.h"
#include "engine/peer/peer_local.h"
#include "engine/peer/peer_route.h"
#include "engine/peer/rail_state.h"
#include "engine/request/reconnect.h"
#include "engine/request/goodbye_wait.h"
#include "engine/request/pending.h"
#include "net/net.h"

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

/* peer_*.c, request/peer_make.c: control thread unless said otherwise */
struct engine_peer *peer_create(struct engine_session *session); /* any thread */
void peer_enlist(struct engine_peer *peer); /* any thread: look-ups find it from now on */
void peer_woken(struct sys_post *post);
void peer_free(struct link *link); /* any thread: the last reference is gone */
void peer_counters_add(tcpx_counters *sum, const struct core_link *link);
void peer_die(struct engine_peer *peer, tcpx_status status, int err, const char *what);
void peer_die_last(struct engine_peer *peer);	  /* with this thread's last error */
bool peer_hidden(const struct engine_peer *peer); /* session.lock held; see NO_ACCEPT */
tcpx_status peer_control_up(struct engine_peer *peer, const struct ctl_conn *conn, bool dialler);
void peer_control_again(struct engine_peer *peer, const struct ctl_conn *conn);
tcpx_status peer_attach(struct engine_peer *peer, uint32_t channel, uint32_t epoch,
			struct net_chan *net);
/* Removes channels that failed or that the peer closed. */
void peer_take_down(struct engine_peer *peer);
/* The last call of a channel of a dead peer has returned. */
void peer_left_dead(struct engine_chan *chan);
bool peer_malformed(tcpx_status status);      /* the peer broke the protocol */
void peer_check_up(struct engine_peer *peer); /* it is up once all its channels are there */
void peer_set_state(struct engine_peer *peer, enum tcpx_peer_state state);
void peer_event(struct engine_peer *peer, enum tcpx_event_type type, tcpx_status status,
		uint32_t channel);
void peer_dial_start(struct engine_peer *peer);
void peer_dial_cancel(struct engine_peer *peer);
void peer_dial_channels(struct engine_peer *peer);
void peer_dial_channel(struct engine_peer *peer, uint32_t channel);
void peer_dial_control(struct engine_peer *peer);
extern const struct ctl_accept_ops peer_accept_ops;
void peer_fill_hello(struct engine_session *session, struct wire_hello *hello);
void peer_forget(struct engine_peer *peer);
void peer_redial_later(struct engine_peer *peer, uint32_t channel);
void peer_redial_parked(struct engine_peer *peer, uint32_t channel); /* its rail has no carrier */
void peer_redial_now(struct engine_peer *peer);
void peer_control_lost(struct engine_peer *peer, tcpx_status status, int err);
void peer_control_later(struct engine_peer *peer);
void peer_connect_timer(struct engine_peer *peer);
void peer_beat(struct sys_timer *timer, int64_t now_ns);
tcpx_status peer_ctl_open(struct engine_peer *peer, int fd);
extern const struct ctl_link_ops peer_ctl_ops;
void peer_send_offers(struct engine_peer *peer, bool local);
void peer_close_lost_dial(struct engine_peer *peer);
void peer_send_fences(struct engine_peer *peer);
void peer_send_goodbye(struct engine_peer *peer);

#endif
