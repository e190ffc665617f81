/* SPDX-License-Identifier: Apache-2.0 */
/* Data channels through shared memory: dialling and accepting them. Control thread. */
#ifndef ENGINE_PEER_PEER_LOCAL_H
#define ENGINE_PEER_PEER_LOCAL_H

#include "engine/link/engine.h"

/* Dials a channel through shared memory. True: the dial is under way, has ended, or is repeated
 * later. False: the channel must be dialled over TCP. */
bool peer_local_dial(struct engine_peer *peer, uint32_t channel, uint32_t epoch);
void peer_local_cancel(struct engine_peer *peer);
/* Called when the dial of a channel failed, through shared memory or over TCP. If the peer is not
 * up yet, ends it, or for a plugin channel lets it come up without the channel. Unless the peer
 * ended, dials the channel again later. */
void peer_channel_failed(struct engine_peer *peer, uint32_t channel, tcpx_status status, int err);

/* Called by the local listener. expected: whether a peer was offered this nonce. arrived: takes
 * over and attaches a channel that shows the nonce; 0: no peer was offered it, or the peer has no
 * such channel, and the channel remains the listener's. */
int peer_local_expected(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES]);
int peer_local_arrived(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, struct net_chan *chan);

#endif
