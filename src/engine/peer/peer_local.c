/* SPDX-License-Identifier: Apache-2.0 */
/* Dials data channels through shared memory. If that is not possible, for example because the peer
 * is on another host or belongs to another user, the channels go over TCP, or the peer ends if the
 * session is LOCAL_ONLY. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/peer/peer_calls.h"

/* most dials, on average per channel, that the peer may close without an answer while this side
 * connects */
#define LOCAL_TRIES 4

/* A dial that waits for the peer's answer. peer->shared_memory.dial[] points to it until the answer
 * arrives. */
struct peer_local_dial {
	struct transport_dial *dial;
	struct engine_peer *peer;
	uint32_t channel, epoch;
};

/* Handles a failed dial of a channel; the last error is the reason. Returns true if the channel
 * will be dialled again or the peer has ended. Returns false if the channel must be dialled over
 * TCP. */
static bool local_channel_failed(struct engine_peer *peer, uint32_t channel, tcpx_status status)
{
	bool only = peer->link.session->flags & TCPX_SESSION_LOCAL_ONLY;
	tcpx_error why;

	switch (status) {
	/* the peer had no memory for the channel, or failed in another way */
	case TCPX_ERR_PEER_CLOSED:
		if (!peer->counted_up &&
		    peer->shared_memory.tries++ >= LOCAL_TRIES * (peer->nbulk + 1))
			break;
		peer_redial_later(peer, channel);
		return true;
	case TCPX_ERR_AGAIN: /* the peer is on this host, but busy */
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
	if (!peer->shared_memory.have_offer) /* an earlier failure has ruled out shared memory */
		return only;
	peer->shared_memory.have_offer = false;
	why = *error_last();
	if (!only && status == TCPX_ERR_UNREACHABLE)
		LOG_INFO("peer '%s' is not on this host: its channels use tcp", peer->who.name);
	else if (!only)
		LOG_INFO("peer '%s': %s: its channels use tcp", peer->who.name, why.what);
	if (!only)
		return false;
	if (status == TCPX_ERR_UNREACHABLE)
		(void)error_set(status, 0,
				"peer is not on this host, and the session is LOCAL_ONLY");
	else
		(void)error_raise(&why);
	peer_die_last(peer);
	return true;
}

static void local_channel_done(void *arg, tcpx_status status, struct net_chan *net)
{
	struct peer_local_dial dial = *(struct peer_local_dial *)arg;
	struct engine_peer *peer = dial.peer;

	free(arg);
	peer->shared_memory.dial[dial.channel] = NULL;
	if (status == TCPX_OK)
		(void)peer_attach(peer, dial.channel, dial.epoch, net);
	else if (!local_channel_failed(peer, dial.channel, status))
		peer_dial_channel(peer, dial.channel);
}

/* Starts the dial of a channel. A peer of an older version does not answer such dials: the channel
 * is attached at once, and the peer cannot refuse it. */
static tcpx_status local_channel_start(struct engine_peer *peer, uint32_t channel, uint32_t epoch)
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
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory to dial channel %u", channel);
	*dial = (struct peer_local_dial){.peer = peer, .channel = channel, .epoch = epoch};
	status = net_transport_of_offers()->dial(&engine_runtime.loop, &target, local_channel_done,
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
	status = local_channel_start(peer, channel, epoch);
	return status == TCPX_OK || local_channel_failed(peer, channel, status);
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
