/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines about lost connections. A process that dies loses all its connections, one after the
 * other. So a line is delayed until it is known whether the peer survives the loss. */
#include "engine/peer/losses.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/peer/peer_calls.h"

#define TOGETHER_NS (200 * CLOCK_MS_NS) /* connections lost within this time are logged together */

static void losses_begin(struct peer_losses *losses)
{
	if (!losses->channels && !losses->control)
		losses->since_ns = clock_now_ns();
}

void losses_add_channel(struct engine_peer *peer, const char *why)
{
	struct peer_losses *losses = &peer->losses;

	losses_begin(losses);
	if (!losses->channels++)
		text_format(losses->why, sizeof(losses->why), "%s", why);
}

void losses_add_control(struct engine_peer *peer, const char *why)
{
	losses_begin(&peer->losses);
	peer->losses.control = why;
}

uint32_t losses_forget(struct engine_peer *peer)
{
	uint32_t channels = peer->losses.channels;

	peer->losses.channels = 0;
	peer->losses.control = NULL;
	return channels;
}

void losses_log(struct engine_peer *peer)
{
	const char *control = peer->losses.control;
	uint32_t channels = losses_forget(peer), up;
	char more[48] = "";

	if (control)
		LOG_INFO("peer '%s': control link lost (%s)", peer->who.name, control);
	if (!channels)
		return;
	link_lock(&peer->link);
	up = core_link_channels_up(&peer->link.core) - core_link_messages_up(&peer->link.core);
	link_unlock_only(&peer->link);
	if (channels > 1)
		text_format(more, sizeof(more), " (and %u more)", channels - 1);
	LOG_WARN("peer '%s': %s%s; channels that live on: %u", peer->who.name, peer->losses.why,
		 more, up);
}

void losses_look(struct engine_peer *peer, int64_t now_ns)
{
	if ((peer->losses.channels || peer->losses.control) &&
	    now_ns - peer->losses.since_ns >= TOGETHER_NS)
		losses_log(peer);
}
