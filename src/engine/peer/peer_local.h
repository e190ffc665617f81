/* SPDX-License-Identifier: Apache-2.0 */
/* Data channels through shared memory: dialling and accepting them. Control thread. */
#ifndef ENGINE_PEER_PEER_LOCAL_H
#define ENGINE_PEER_PEER_LOCAL_H

#include "engine/link/engine.h"

/* Dials a channel through shared memory. Returns true if the dial is in progress, has succeeded, or
 * will be repeated later, or if the peer has ended. Returns false if the channel must be dialled
 * over TCP. */
bool peer_local_dial(struct engine_peer *peer, uint32_t channel, uint32_t epoch);
void peer_local_cancel(struct engine_peer *peer);
/* Called when the dial of a channel failed, through shared memory or over TCP. If the peer is not
 * up yet, ends the peer; a plugin channel is given up instead, so that the peer can come up without
 * this channel. If the peer did not end, dials the channel again later. */
void peer_channel_failed(struct engine_peer *peer, uint32_t channel, tcpx_status status, int err);

/* Called by the local listener. peer_local_expected() returns whether a peer was offered this
 * nonce. peer_local_arrived() takes over and attaches a channel that presents the nonce, and
 * returns 1. It returns 0 if no peer was offered the nonce or the peer has no such channel; the
 * listener then still owns `chan`. */
int peer_local_expected(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES]);
int peer_local_arrived(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, struct net_chan *chan);

#endif
