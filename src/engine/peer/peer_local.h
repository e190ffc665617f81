/* SPDX-License-Identifier: Apache-2.0 */
/* Data channels through shared memory: dialling and accepting them. Control thread. */
#ifndef ENGINE_PEER_PEER_LOCAL_H
#define ENGINE_PEER_PEER_LOCAL_H

#include <stdbool.h>

#include "core/link.h"
#include "net/local/local.h"

struct engine_peer;
struct peer_local_dial;

struct peer_local {
	bool answers;	/* the peer answers whether it takes a channel */
	uint32_t tries; /* dials that it closed without an answer */
	struct peer_local_dial *dial[CORE_CHANNELS_MAX];
	bool have_offer; /* the peer offers shared memory, */
	bool offered;	 /* or this side does */
	uint8_t nonce[LOCAL_NONCE_BYTES];
	char name[LOCAL_NAME_MAX];
};

/* False: dial the channel over TCP. */
bool peer_local_dial(struct engine_peer *peer, uint32_t channel, uint32_t epoch);
void peer_local_cancel(struct engine_peer *peer);
/* A data channel could not be dialled, through shared memory or TCP. */
void peer_channel_failed(struct engine_peer *peer, uint32_t channel, tcpx_status status, int err);

int peer_local_expected(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES]);
int peer_local_arrived(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, struct net_chan *chan);

#endif
