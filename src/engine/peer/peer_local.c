/* SPDX-License-Identifier: Apache-2.0 */
/* Dialling data channels through shared memory, and the way back to tcp where the peer is elsewhere
 * or another user's. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/calls.h"

#define LOCAL_TRIES 4 /* dials of a channel that the peer closes without a word */

/* A channel that the peer has not taken yet; in peer->local_dial until it did, or cancelled. */
struct peer_local_dial {
	struct transport_dial *dial;
	struct engine_peer *peer;
	uint32_t channel, epoch;
};

/* What the failure means, as the thread's last error says it. False: tcp is left. */
static bool dial_failed(struct engine_peer *peer, uint32_t channel, tcpx_status status)
{
	bool only = peer->link.session->flags & TCPX_SESSION_LOCAL_ONLY;
	tcpx_error why;

	switch (status) {
	case TCPX_ERR_PEER_CLOSED: /* it was short of room, or something else is wrong there */
		if (!peer->counted_up &&
		    peer->shared_memory.tries++ >= LOCAL_TRIES * (peer->nbulk + 1))
			break;
		peer_redial_later(peer, channel);
		return true;
	case TCPX_ERR_AGAIN: /* it is here, and busy */
	case TCPX_ERR_PEER_RESET:
		peer_redial_later(peer, channel);
		return true;
	case TCPX_ERR_NO_DESCRIPTORS:
	case TCPX_ERR_NO_MEMORY:
		peer_channel_failed(peer, channel, status, error_last()->system_errno);
		return true;
	default:
		break;
	}
	if (!peer->shared_memory.have_offer) /* another channel was told already */
		return only;
	peer->shared_memory.have_offer = false;
	why = *error_last();
	if (!only && status == TCPX_ERR_UNREACHABLE)
		LOG_INFO("peer '%s' is not on this host: tcp", peer->who.name);
	else if (!only)
		LOG_INFO("peer '%s': %s: tcp", peer->who.name, why.what);
	if (!only)
		return false;
	if (status == TCPX_ERR_UNREACHABLE)
		(void)error_set(status, 0, "peer is not on this host, local only");
	else
		(void)error_raise(&why);
	peer_die_last(peer);
	return true;
}

static void channel_dialled(void *arg, tcpx_status status, struct net_chan *net)
{
	struct peer_local_dial dial = *(struct peer_local_dial *)arg;
	struct engine_peer *peer = dial.peer;

	free(arg);
	peer->shared_memory.dial[dial.channel] = NULL;
	if (status == TCPX_OK)
		(void)peer_attach(peer, dial.channel, dial.epoch, net);
	else if (!dial_failed(peer, dial.channel, status))
		peer_dial_channel(peer, dial.channel);
}

/* Only a peer that answers can refuse a channel while tcp is still possible. */
static tcpx_status dial_by_offer(struct engine_peer *peer, uint32_t channel, uint32_t epoch)
{
	struct peer_local_dial *dial = malloc(sizeof(*dial));
	struct transport_target target = {.name = peer->shared_memory.name,
					  .nonce = peer->shared_memory.nonce,
					  .answers = peer->shared_memory.answers,
					  .channel = (uint16_t)channel,
					  .epoch = epoch};
	struct net_chan *net = NULL;
	tcpx_status status;

	if (!dial)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "dial of channel %u", channel);
	*dial = (struct peer_local_dial){.peer = peer, .channel = channel, .epoch = epoch};
	status = net_transport_of_offers()->dial(&engine_runtime.loop, &target, channel_dialled,
						 dial, &dial->dial, &net);
	if (status == TCPX_OK && !net) {
		peer->shared_memory.dial[channel] = dial;
		return TCPX_OK;
	}
	free(dial);
	if (status == TCPX_OK)
		(void)peer_attach(peer, channel, epoch, net);
	return status;
}

bool peer_local_dial(struct engine_peer *peer, uint32_t channel, uint32_t epoch)
{
	tcpx_status status;

	if (!peer->shared_memory.have_offer || (peer->link.session->flags & TCPX_SESSION_NO_LOCAL))
		return false;
	status = dial_by_offer(peer, channel, epoch);
	return status == TCPX_OK || dial_failed(peer, channel, status);
}

void peer_local_cancel(struct engine_peer *peer)
{
	for (uint32_t i = 0; i < CORE_CHANNELS_MAX; i++) {
		struct peer_local_dial *dial = peer->shared_memory.dial[i];

		if (dial)
			dial->dial->ops->cancel(dial->dial);
		free(dial);
		peer->shared_memory.dial[i] = NULL;
	}
}
