/* SPDX-License-Identifier: Apache-2.0 */
/* Detects paths that silently lose full-sized packets. The channels over such a path are dialled
 * again with smaller packets. */
#include "engine/peer/path_mtu.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/channel/comms.h"
#include "sys/addr.h"
#include "sys/sock.h"

/* Payload bytes of packets that get through where full-sized packets do not: every IPv6 path
 * carries packets of 1280 bytes, and in practice every IPv4 path carries packets of 576 bytes. */
#define SEGMENT_V6 1220
#define SEGMENT_V4 536
/* A new channel is judged to lose full-sized packets (to have a hole) only if nothing was
 * acknowledged for HOLE_NS, and TCP has retransmitted the oldest packet at least TIMEOUTS times.
 * For a channel that has had PROVEN_BYTES acknowledged, the silence limit takes the place of
 * HOLE_NS (path_mtu_is_hole). */
#define HOLE_NS (5 * CLOCK_S_NS / 2)
#define TIMEOUTS 3
/* this many acknowledged bytes prove that full-sized packets get through */
#define PROVEN_BYTES (64u << 10)
/* most successive connections of one channel with fewer than PROVEN_BYTES acknowledged; one more
 * ends the peer */
#define CHANNELS_IN_VAIN 3
/* time that the peer may stay up without channels after path_mtu_replace() */
#define REPLACE_NS (10 * CLOCK_S_NS)
/* a channel that has been up for this long counts as working */
#define SETTLED_NS CLOCK_S_NS
/* after this time, packets that were in flight when a stall was detected have arrived */
#define SEEN_NS (100 * CLOCK_MS_NS)

static const struct peer_rail *path_mtu_rail(const struct engine_peer *peer, uint32_t rail)
{
	return &peer->rails.at[rail < ENGINE_RAILS_MAX ? rail : ENGINE_RAILS_MAX];
}

uint16_t path_mtu_control(const struct peer_route *route)
{
	return route->remote.ss_family == AF_INET6 ? SEGMENT_V6 : SEGMENT_V4;
}

uint16_t path_mtu_channel(const struct engine_peer *peer, uint32_t rail)
{
	return path_mtu_rail(peer, rail)->segment_bytes;
}

static void path_mtu_limit_rail(struct engine_peer *peer, uint32_t rail, uint16_t bytes)
{
	struct peer_rail *at = &peer->rails.at[rail < ENGINE_RAILS_MAX ? rail : ENGINE_RAILS_MAX];

	if (!at->segment_bytes || bytes < at->segment_bytes)
		at->segment_bytes = bytes;
}

uint16_t path_mtu_requested(const struct engine_peer *peer, uint32_t channel)
{
	return peer->rails.segments_told ? peer->rails.holes[channel].told : 0;
}

void path_mtu_apply(struct engine_peer *peer, uint32_t channel, uint64_t bytes)
{
	if (!peer->dialler || !peer->rails.segments_told || bytes < SEGMENT_V4 ||
	    bytes > UINT16_MAX)
		return;
	path_mtu_limit_rail(peer, peer->rails.of_channel[channel], (uint16_t)bytes);
}

static bool path_mtu_ends_of(int fd, struct sockaddr_storage *local,
			     struct sockaddr_storage *remote)
{
	return sys_sock_local(fd, local) == TCPX_OK && sys_sock_remote(fd, remote) == TCPX_OK;
}

/* Whether the control connection, whose packets are small, has the same two end addresses as the
 * channel and therefore takes the same path. */
static bool path_mtu_same_as_control(const struct engine_peer *peer, const struct engine_chan *chan)
{
	struct sockaddr_storage local, remote;

	return peer->control.link && chan->ends_known &&
	       path_mtu_ends_of(ctl_link_fd(peer->control.link), &local, &remote) &&
	       sys_addr_same_host(&chan->ends[0], &local) &&
	       sys_addr_same_host(&chan->ends[1], &remote);
}

void path_mtu_ends(struct engine_chan *chan)
{
	int fd = chan->net->ops->fd(chan->net);

	chan->ends_known = chan->iface && path_mtu_ends_of(fd, &chan->ends[0], &chan->ends[1]);
}

/* Sets ctl_answered_ns if more bytes of the control connection are acknowledged than at the last
 * call. It is set to the time of the last call, because the acknowledgement arrived after that. A
 * packet from the peer does not prove that our packets arrive: if only ours are lost, the peer
 * still sends packets, each with an old acknowledgement. */
static void path_mtu_look_control(struct engine_peer *peer, int64_t now_ns)
{
	struct peer_rails *rails = &peer->rails;
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (!peer->control.link ||
	    getsockopt(ctl_link_fd(peer->control.link), IPPROTO_TCP, TCP_INFO, &info, &len))
		return;
	if (info.tcpi_bytes_acked > rails->ctl_acked_bytes)
		rails->ctl_answered_ns = rails->ctl_looked_ns;
	/* the count restarts at 0 when the control connection is dialled again */
	rails->ctl_acked_bytes = info.tcpi_bytes_acked;
	rails->ctl_looked_ns = now_ns;
}

/* Logs the loss of full-sized packets, once per peer. */
static void path_mtu_say(struct engine_peer *peer, const struct engine_chan *chan,
			 const struct net_chan_info *info, uint16_t next)
{
	char from[SYS_ADDR_TEXT], to[SYS_ADDR_TEXT];

	if (peer->rails.hole_said || !chan->ends_known)
		return;
	peer->rails.hole_said = true;
	LOG_WARN("peer '%s': path MTU: packets of %u bytes of payload from %s to %s are lost, "
		 "smaller ones arrive; channels go on with %u; next: give the interfaces the MTU "
		 "of the path, or let ICMP 'fragmentation needed' pass; 'tcpx doctor --peer' "
		 "measures it",
		 peer->who.name, info->segment_bytes, sys_addr_host_text(&chan->ends[0], from),
		 sys_addr_host_text(&chan->ends[1], to), next);
}

void path_mtu_replace(struct engine_chan *chan, int err)
{
	chan->peer->rails.replacing_ns = clock_now_ns() + REPLACE_NS;
	chan_fail(chan, TCPX_ERR_CHANNEL_LOST, err);
}

/* Gives up a channel, which is then dialled again, and subtracts it from *up, the number of working
 * channels. */
static void path_mtu_replace_one(struct engine_chan *chan, uint32_t *up)
{
	--*up;
	path_mtu_replace(chan, EMSGSIZE);
}

uint32_t path_mtu_settled(const struct engine_peer *peer, int64_t now_ns)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i <= peer->nbulk; i++) {
		const struct path_hole *hole = &peer->rails.holes[i];
		struct engine_chan *chan = peer->link.chan[i];

		count += chan && !comms_slot(peer, i) && !atomic_load(&chan->failed) &&
			 hole->epoch == chan->epoch && now_ns - hole->began_ns >= SETTLED_NS;
	}
	return count;
}

/* Whether full-sized packets of the channel have been lost for longer than congestion would
 * explain, while smaller packets get through. */
static bool path_mtu_is_hole(struct engine_peer *peer, const struct engine_chan *chan,
			     const struct net_chan_info *info, int64_t now_ns)
{
	struct path_hole *hole = &peer->rails.holes[chan->index];
	int64_t stalled_ns = now_ns - hole->progress_ns;
	bool young = info->acked_bytes < PROVEN_BYTES;

	if (!stalled_ns) {
		hole->timeouts = 0;
		hole->seen_ns = 0;
	}
	if (!stalled_ns || info->unacked_bytes < info->segment_bytes)
		return false;
	if (!hole->seen_ns)
		hole->seen_ns = now_ns;
	/* If the control connection takes another path, its acknowledgements prove nothing about
	 * the channel's path. The stall must then begin soon after the channel's own handshake,
	 * which shows that small packets got through. */
	if (!path_mtu_same_as_control(peer, chan))
		return young && info->timeouts >= TIMEOUTS && stalled_ns >= HOLE_NS &&
		       hole->progress_ns - hole->began_ns < HOLE_NS;
	/* After a network outage the control connection may be acknowledged long before TCP
	 * retransmits the channel's lost packet. So retransmissions count only after an
	 * acknowledgement on the control connection that cannot be older than the outage: it came
	 * more than 1 s after the stall began, and more than SEEN_NS after the stall was detected.
	 * (A late heartbeat delays the detection.) */
	if (!hole->timeouts && peer->rails.ctl_answered_ns > hole->progress_ns + CLOCK_S_NS &&
	    peer->rails.ctl_answered_ns > hole->seen_ns + SEEN_NS)
		hole->timeouts = info->timeouts + 1;
	if (!hole->timeouts || info->timeouts < TIMEOUTS || info->last_send_ms < 300)
		return false;
	/* If full-sized packets got through on this channel before (it is not `young`), the path
	 * may have changed. The stall must then last for the silence limit. No packet size is
	 * derived from it; the connection that replaces this one will show the loss again. */
	return info->timeouts >= hole->timeouts + !young &&
	       stalled_ns >= (young ? HOLE_NS : peer->link.session->tuning.silent_ns);
}

/* Called for a channel that is given up. Counts its successive connections on which fewer than
 * PROVEN_BYTES were acknowledged. If there were too many, ends the peer and returns true. */
static bool path_mtu_count_vain(struct engine_peer *peer, const struct engine_chan *chan,
				const struct net_chan_info *info)
{
	char what[160];

	if (info->acked_bytes >= PROVEN_BYTES ||
	    peer->rails.holes[chan->index].in_vain++ < CHANNELS_IN_VAIN)
		return false;
	text_format(what, sizeof(what),
		    "path MTU: packets of %u bytes of payload are acknowledged on none of %d "
		    "connections",
		    info->segment_bytes, CHANNELS_IN_VAIN + 1);
	peer_die(peer, TCPX_ERR_PEER_SILENT, EMSGSIZE, what);
	return true;
}

bool path_mtu_in_vain(struct engine_peer *peer, struct engine_chan *chan)
{
	struct net_chan_info info = {0};

	chan_sample_read(chan, &info);
	return path_mtu_count_vain(peer, chan, &info);
}

/* Called for a channel that loses full-sized packets. Ends the peer if too many successive
 * connections of the channel carried almost nothing. Otherwise gives the channel up, which is then
 * dialled again. If fewer than PROVEN_BYTES were acknowledged on this connection, the next one uses
 * smaller packets. The dialling side then limits the packets of the channel's rail; the accepting
 * side requests that limit in the channel's fence (`told`). */
static void path_mtu_found(struct engine_peer *peer, struct engine_chan *chan,
			   const struct net_chan_info *info, uint32_t *up)
{
	struct path_hole *hole = &peer->rails.holes[chan->index];
	uint16_t next = info->segment_bytes > SEGMENT_V6 ? SEGMENT_V6 : SEGMENT_V4;

	if (path_mtu_count_vain(peer, chan, info))
		return;
	if (info->acked_bytes < PROVEN_BYTES) {
		path_mtu_say(peer, chan, info, next);
		hole->told = next;
		if (peer->dialler)
			path_mtu_limit_rail(peer, peer->rails.of_channel[chan->index], next);
	}
	path_mtu_replace_one(chan, up);
}

/* Records when the channel last made progress. If at least two channels work (*up), replaces this
 * one if it loses full-sized packets, or, on the dialling side, if its packets are larger than the
 * limit of its rail. */
static void path_mtu_look_channel(struct engine_peer *peer, struct engine_chan *chan, uint32_t *up,
				  int64_t now_ns)
{
	struct path_hole *hole = &peer->rails.holes[chan->index];
	struct net_chan_info info = {0};
	uint16_t limit;

	chan_sample_read(chan, &info);
	if (hole->epoch != chan->epoch) {
		hole->epoch = chan->epoch;
		hole->began_ns = now_ns;
		hole->acked_bytes = 0;
		hole->progress_ns = now_ns;
	}
	if (!info.unacked_bytes || info.acked_bytes != hole->acked_bytes) {
		hole->progress_ns = now_ns;
		hole->acked_bytes = info.acked_bytes;
		if (info.acked_bytes >= PROVEN_BYTES)
			hole->in_vain = 0;
	}
	if (*up < 2)
		return;
	if (path_mtu_is_hole(peer, chan, &info, now_ns)) {
		path_mtu_found(peer, chan, &info, up);
		return;
	}
	/* Replace the other channels over a limited rail at once, so that they need not detect the
	 * loss one by one. */
	limit = peer->dialler ? path_mtu_channel(peer, peer->rails.of_channel[chan->index]) : 0;
	if (limit && info.segment_bytes > limit)
		path_mtu_replace_one(chan, up);
}

void path_mtu_look(struct engine_peer *peer, int64_t now_ns)
{
	uint32_t up = path_mtu_settled(peer, now_ns);

	path_mtu_look_control(peer, now_ns);
	for (uint32_t i = 0; peer->counted_up && i <= peer->nbulk && !peer->died; i++) {
		struct engine_chan *chan = peer->link.chan[i];

		/* the same-host transport has no interface */
		if (chan && chan->iface && !chan->sample.late && !comms_slot(peer, i) &&
		    !atomic_load(&chan->failed))
			path_mtu_look_channel(peer, chan, &up, now_ns);
	}
}
