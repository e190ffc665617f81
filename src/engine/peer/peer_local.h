/* SPDX-License-Identifier: Apache-2.0 */
/* Data channels through shared memory: dialling and accepting them. Control thread. */
#ifndef ENGINE_PEER_PEER_LOCAL_H
#define ENGINE_PEER_PEER_LOCAL_H

#include "engine/link/engine.h"

/* Dials a channel through shared memory. False: dial it over TCP. */
bool peer_local_dial(struct engine_peer *peer, uint32_t channel, uint32_t epoch);
void peer_local_cancel(struct engine_peer *peer);
/* Handles a channel whose dial failed, through shared memory or over TCP. */
void peer_channel_failed(struct engine_peer *peer, uint32_t channel, tcpx_status status, int err);

int peer_local_expected(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES]);
int peer_local_arrived(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, struct net_chan *chan);

#endif
