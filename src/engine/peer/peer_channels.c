/* SPDX-License-Identifier: Apache-2.0 */
/* Attaches the channels of a peer, and takes down those that are lost. Control thread. */
#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/peer/carrier.h"
#include "engine/channel/comms.h"
#include "engine/link/hold.h"
#include "engine/peer/path_mtu.h"
#include "engine/link/place.h"

/* Makes the connected `net` the transport of the channel and starts the channel. If the channel is
 * a plugin channel and `net` a plain stream, `net` becomes the channel's guide instead. Returns
 * ERR_STALE if the channel already has a connection, the epoch is old or the peer is dead. Owns
 * `net`, even on failure. Control thread. */
tcpx_status peer_attach(struct engine_peer *peer, uint32_t channel, uint32_t epoch,
			struct net_chan *net)
{
	uint32_t iface = carrier_iface(net->ops->fd(net));
	const char *transport = net->ops->name;
	struct engine_chan *chan;
	struct comms_slot *slot = comms_slot(peer, channel);
	tcpx_status status;

	if (slot && !net->ops->message)
		/* the guide: the channel is attached when its comms are set up */
		return comms_guide(peer, channel, epoch, net);
	status = chan_create(peer, channel, epoch, net,
			     place_of_nic(slot ? comms_nic_name(slot->comms) : NULL, iface), &chan);
	if (status != TCPX_OK) {
		net->ops->close(net);
		return status;
	}
	chan->iface = iface;
	chan->comms = slot ? slot->comms : NULL;
	path_mtu_ends(chan);
	/* marked as busy, so that no thread sends before the channel is started */
	atomic_store(&chan->tx_owner, OWNER_BUSY);
	link_lock(&peer->link);
	status = peer->link.chan[channel] || peer->died
			 ? TCPX_ERR_STALE
			 : core_chan_up(&peer->link.core, channel, epoch);
	if (status == TCPX_OK) {
		peer->link.chan[channel] = chan;
		chan_get(chan);
	}
	link_unlock_only(&peer->link);
	if (status != TCPX_OK) {
		chan_put(chan);
		return status;
	}
	link_lock(&peer->link);
	if (slot || !core_link_messages_up(&peer->link.core))
		peer->transport = transport;
	link_unlock_only(&peer->link);
	atomic_store(&chan->tx_owner, OWNER_FREE);
	chan_start(chan); /* if polling cannot be set up, the channel fails later */
	chan_put(chan);
	link_run_deferred(&peer->link);
	if (peer->counted_up)
		peer_event(peer, TCPX_EVENT_CHANNEL_UP, TCPX_OK, channel);
	peer_check_up(peer);
	return TCPX_OK;
}

/* Called on the control thread when a lost channel has stopped. Ends the peer if the peer broke the
 * protocol. Otherwise the peer survives if another channel (not of a plugin) is up, or if the
 * control connection is up and path_mtu_replace() was called recently. A peer that is not up yet
 * survives only if, in addition, the lost channel is a plugin channel, whose comms comms_stopped()
 * closes. */
static void channel_lost(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;
	tcpx_status status = (tcpx_status)atomic_load(&chan->failed);
	int err = atomic_load(&chan->failed_errno);
	uint32_t channel = chan->index, up;
	bool fatal = peer_malformed(status), later, replacing;
	bool follows = !chan->comms || comms_peer_ended_first(chan->comms);
	char what[COMMS_WHY_BYTES];

	if (chan->comms)
		comms_reason(chan->comms, status, what, sizeof(what));
	else
		text_format(what, sizeof(what), "channel %u: %s", channel,
			    err == EMSGSIZE
				    ? "its full packets are lost, it is replaced with smaller ones"
				    : error_status_text(status));
	later = !fatal && comms_stopped(chan, what);
	link_lock(&peer->link);
	if (!later)
		core_chan_lost(&peer->link.core, channel);
	up = core_link_channels_up(&peer->link.core) - core_link_messages_up(&peer->link.core);
	link_unlock(&peer->link);
	chan_put(chan);
	/* For some seconds after path_mtu_replace(), the control connection alone keeps the peer
	 * up. */
	replacing = peer->control.link && clock_now_ns() < peer->rails.replacing_ns;
	if (fatal || (!up && !replacing) || (!peer->counted_up && !later)) {
		/* CHANNEL_LOST tells no cause: for example, the peer's fence reported the loss
		 * before our socket did. */
		peer_die(peer, status == TCPX_ERR_CHANNEL_LOST ? TCPX_ERR_PEER_RESET : status, err,
			 what);
		return;
	}
	if (follows)
		losses_add_channel(peer, what);
	else
		LOG(comms_loss_level(comms_slot(peer, channel)),
		    "peer '%s': %s; channels that live on: %u", peer->who.name, what, up);
	atomic_fetch_add(&peer->link.session->counters.channels_lost, 1);
	peer_event(peer, TCPX_EVENT_CHANNEL_DOWN, TCPX_ERR_CHANNEL_LOST, channel);
}

/* Called on the control thread when the last call inside a stopped channel has returned. */
static void channel_quiesced(struct engine_chan *chan)
{
	if (chan->peer->died) {
		peer_release_dead_chan(chan);
		return;
	}
	/* before channel_lost(), which may end the peer: comms_peer_dead() then closes the comms */
	comms_call_returned(chan->comms);
	channel_lost(chan);
}

/* Stops a channel that is lost. Control thread. */
static void channel_down(struct engine_peer *peer, struct engine_chan *chan)
{
	tcpx_status status = (tcpx_status)atomic_load(&chan->failed);

	/* A peer that closes sends a goodbye on the control connection before its channels end.
	 * Read the goodbye first; the peer may be dead afterwards. */
	if (status == TCPX_ERR_PEER_CLOSED && peer->control.link)
		ctl_link_poll(peer->control.link);
	if (peer->died)
		return;
	link_lock(&peer->link);
	peer->link.chan[chan->index] = NULL;
	link_unlock_only(&peer->link);
	if (chan_stop(chan, channel_quiesced)) {
		channel_lost(chan);
	} else {
		comms_call_pending(chan->comms);
		LOG_INFO("peer '%s': channel %u is lost while one of its calls waits for memory",
			 peer->who.name, chan->index);
	}
}

void peer_take_down(struct engine_peer *peer)
{
	uint64_t closing;
	uint32_t i;

	link_lock(&peer->link);
	closing = peer->link.wake.close_mask;
	peer->link.wake.close_mask = 0;
	link_unlock(&peer->link);
	for (i = 0; i < CORE_CHANNELS_MAX && !peer->died; i++) {
		/* no lock, because only the control thread writes chan[] */
		struct engine_chan *chan = peer->link.chan[i];

		int none = 0;

		/* a failure that this side has noticed keeps its status */
		if (chan && closing & (1ull << i))
			atomic_compare_exchange_strong(&chan->failed, &none, TCPX_ERR_CHANNEL_LOST);
		if (chan && atomic_load(&chan->failed))
			channel_down(peer, chan);
	}
}
