/* SPDX-License-Identifier: Apache-2.0 */
/* Data channels through shared memory: dialling them, and taking those that are dialled. Control
 * thread. */
#ifndef ENGINE_PEER_PEER_LOCAL_H
#define ENGINE_PEER_PEER_LOCAL_H

#include <stdbool.h>

#include "core/link.h"
#include "net/local/local.h"

struct engine_peer;
struct peer_local_dial;

struct peer_local {
	bool answers;	/* the peer says whether it takes a channel */
	uint32_t tries; /* dials that it closed without a word */
	struct peer_local_dial *dial[CORE_CHANNELS_MAX];
	bool have_offer, offered; /* the peer's; ours */
	uint8_t nonce[LOCAL_NONCE_BYTES];
	char name[LOCAL_NAME_MAX];
};

/* False: the channel is to be dialled over tcp. */
bool peer_local_dial(struct engine_peer *peer, uint32_t channel, uint32_t epoch);
void peer_local_cancel(struct engine_peer *peer);
/* A data channel of either kind could not be dialled. */
void peer_channel_failed(struct engine_peer *peer, uint32_t channel, tcpx_status status, int err);

int peer_local_expected(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES]);
int peer_local_arrived(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, struct net_chan *chan);

#endif
