/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the files in peer/, and those that the public calls about peers use. */
#ifndef ENGINE_PEER_PEER_CALLS_H
#define ENGINE_PEER_PEER_CALLS_H

#include "engine/peer/inbound.h"
#include "engine/peer/losses.h"
#include "engine/peer/peer_identity.h"
#include "engine/peer/peer_local.h"
#include "engine/peer/peer_route.h"
#include "engine/peer/session_advertised.h"
#include "engine/request/request_calls.h"

/* advice in the errors of a session without a key, which may use loopback addresses only */
#define ENGINE_NEXT_KEY                                                                            \
	"give TCPX_KEY_FILE or --key FILE on both sides ('tcpx key new FILE' makes one), or go "   \
	"without (--insecure; in a program TCPX_SESSION_INSECURE)"

tcpx_status engine_info(struct engine_session *session, void *buf, size_t cap, size_t *out_len);
tcpx_status engine_connect(struct engine_session *session, const struct wire_info *info,
			   const char *address, const tcpx_connect_opts *opts, tcpx_peer *out_peer);
tcpx_status engine_disconnect(struct engine_session *session, uint64_t peer_id);
tcpx_status engine_flush(struct engine_session *session, uint64_t peer_id, int64_t timeout_ns);
/* longest time that a close or disconnect waits for notifications to be acknowledged */
#define ENGINE_LINGER_NS (200 * CLOCK_MS_NS)
/* Waits until the peer has acknowledged all standalone notifications in the link's core, the link
 * has ended, or the deadline has passed. The caller holds no lock. */
void peer_notes_await(struct engine_peer *peer, int64_t deadline);
tcpx_status engine_peer_find(struct engine_session *session, const char *name, tcpx_peer *out_peer);
tcpx_status engine_channel_query(struct engine_session *session, uint64_t peer_id, uint32_t index,
				 tcpx_channel_info *out_info);
tcpx_status engine_peer_query(struct engine_session *session, uint64_t peer_id,
			      tcpx_peer_info *out_info);
tcpx_status engine_peer_error(struct engine_session *session, uint64_t peer_id,
			      tcpx_error *out_error);
void engine_counters(struct engine_session *session, tcpx_counters *out_counters);
/* Writes the session's public key in hex, or "" if the session has no key. */
void engine_key(struct engine_session *session, char out_key[65]);

/* Returns the peer that the handle leads to at present, with a reference. Returns NULL, with
 * ERR_STALE as the last error, if the handle is stale. */
struct engine_peer *engine_peer_get(struct engine_session *session, uint64_t peer_id);

/* The functions below run on the control thread unless a comment says otherwise. */
void peer_woken(struct sys_post *post); /* does the work noted in link->wake */
void peer_free(struct link *link);	/* called when no reference is left; any thread */
/* Adds the counts of `link` to *sum. The caller holds link.lock; any thread. */
void peer_counters_add(tcpx_counters *sum, const struct core_link *link);
/* Ends the peer with the given error. Does nothing if the peer is dead already. */
void peer_die(struct engine_peer *peer, tcpx_status status, int err, const char *what);
void peer_die_last(struct engine_peer *peer); /* ends the peer with this thread's last error */
/* Whether NO_ACCEPT hides the peer from the application. The caller holds session.lock. */
bool peer_hidden(const struct engine_peer *peer);
tcpx_status peer_control_up(struct engine_peer *peer, const struct ctl_conn *conn, bool dialler);
/* Replaces a lost control connection by `conn`. Owns conn->fd. */
void peer_control_again(struct engine_peer *peer, const struct ctl_conn *conn);
tcpx_status peer_attach(struct engine_peer *peer, uint32_t channel, uint32_t epoch,
			struct net_chan *net);
/* Stops channels that have failed or that the peer has reported as lost. */
void peer_take_down(struct engine_peer *peer);
/* Called when the last call inside a channel of a dead peer has returned: releases the channel. */
void peer_release_dead_chan(struct engine_chan *chan);
/* Whether the status of a failed channel means that the peer broke the protocol. */
bool peer_malformed(tcpx_status status);
/* Marks the peer as up if each of its channels is up or given up. */
void peer_check_up(struct engine_peer *peer);
void peer_set_state(struct engine_peer *peer, enum tcpx_peer_state state);
void peer_event(struct engine_peer *peer, enum tcpx_event_type type, tcpx_status status,
		uint32_t channel);
/* Dials the peer. Does nothing if the link has a core already or the peer is dead. */
void peer_dial_start(struct engine_peer *peer);
void peer_dial_cancel(struct engine_peer *peer);
void peer_dial_channels(struct engine_peer *peer);
void peer_dial_channel(struct engine_peer *peer, uint32_t channel);
void peer_dial_control(struct engine_peer *peer);
extern const struct ctl_accept_ops peer_accept_ops;
void peer_fill_hello(struct engine_session *session, struct wire_hello *hello); /* any thread */
void peer_forget(struct engine_peer *peer); /* makes a dead peer's handle stale */
void peer_redial_later(struct engine_peer *peer, uint32_t channel);
/* Called for a channel that cannot be dialled at present: dials it after at most 5 s, or at once if
 * a carrier returns. */
void peer_redial_parked(struct engine_peer *peer, uint32_t channel);
void peer_redial_now(struct engine_peer *peer); /* dials the waiting channels at once */
/* Closes the control connection. Then the dialling side dials it again, or the peer ends. */
void peer_control_lost(struct engine_peer *peer, tcpx_status status, int err);
void peer_control_later(struct engine_peer *peer);
/* Sets the timer that limits how long the peer may take to come up. */
void peer_connect_timer(struct engine_peer *peer);
void peer_beat(struct sys_timer *timer, int64_t now_ns);
tcpx_status peer_ctl_open(struct engine_peer *peer, int fd);
extern const struct ctl_link_ops peer_ctl_ops;
void peer_send_offers(struct engine_peer *peer, bool local);
void peer_close_lost_dial(struct engine_peer *peer);
void peer_send_fences(struct engine_peer *peer);
void peer_send_goodbye(struct engine_peer *peer);

#endif
