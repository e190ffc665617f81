/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that lose full-sized packets in silence: their channels go on with smaller ones. */
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

/* Payloads of packets that pass where full ones do not: IPv6 guarantees 1280 bytes a packet, IPv4
 * 576 in practice. */
#define SEGMENT_V6 1220
#define SEGMENT_V4 536
#define HOLE_NS (5 * CLOCK_S_NS / 2) /* so long nothing is acknowledged */
#define TIMEOUTS 3		     /* and so often in a row the first packet was sent again */
#define PROVEN_BYTES (64u << 10) /* of a channel that carried so much full packets have passed */
#define CHANNELS_IN_VAIN 3
#define REPLACE_NS (10 * CLOCK_S_NS)
#define SETTLED_NS CLOCK_S_NS
#define SEEN_NS (100 * CLOCK_MS_NS) /* what was on its way has arrived */

static const struct peer_rail *rail_at(const struct engine_peer *peer, uint32_t rail)
{
	return &peer->rails.at[rail < ENGINE_RAILS_MAX ? rail : ENGINE_RAILS_MAX];
}

uint16_t path_mtu_control(const struct peer_way *way)
{
	return way->remote.ss_family == AF_INET6 ? SEGMENT_V6 : SEGMENT_V4;
}

uint16_t path_mtu_channel(const struct engine_peer *peer, uint32_t rail)
{
	return rail_at(peer, rail)->segment_bytes;
}

static void limit_rail(struct engine_peer *peer, uint32_t rail, uint16_t bytes)
{
	struct peer_rail *at = &peer->rails.at[rail < ENGINE_RAILS_MAX ? rail : ENGINE_RAILS_MAX];

	if (!at->segment_bytes || bytes < at->segment_bytes)
		at->segment_bytes = bytes;
}

uint16_t path_mtu_told(const struct engine_peer *peer, uint32_t channel)
{
	return peer->rails.segments_told ? peer->rails.holes[channel].told : 0;
}

void path_mtu_take(struct engine_peer *peer, uint32_t channel, uint64_t bytes)
{
	if (!peer->dialler || !peer->rails.segments_told || bytes < SEGMENT_V4 ||
	    bytes > UINT16_MAX)
		return;
	limit_rail(peer, peer->rails.of_channel[channel], (uint16_t)bytes);
}

static bool ends_of(int fd, struct sockaddr_storage *local, struct sockaddr_storage *remote)
{
	return sys_sock_local(fd, local) == TCPX_OK && sys_sock_remote(fd, remote) == TCPX_OK;
}

/* The control link, whose packets are small, goes the same way. */
static bool control_goes_there(const struct engine_peer *peer, const struct engine_chan *chan)
{
	struct sockaddr_storage local, remote;

	return peer->control.link && chan->ends_known &&
	       ends_of(ctl_link_fd(peer->control.link), &local, &remote) &&
	       sys_addr_same_host(&chan->ends[0], &local) &&
	       sys_addr_same_host(&chan->ends[1], &remote);
}

void path_mtu_ends(struct engine_chan *chan)
{
	int fd = chan->net->ops->fd(chan->net);

	chan->ends_known = chan->iface && ends_of(fd, &chan->ends[0], &chan->ends[1]);
}

/* Whether more of what we sent on it was acknowledged. A segment of the other side alone would not
 * do: where only our packets are lost they come all the time, each with an old acknowledgement. */
static void look_at_control(struct engine_peer *peer, int64_t now_ns)
{
	struct peer_rails *rails = &peer->rails;
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (!peer->control.link ||
	    getsockopt(ctl_link_fd(peer->control.link), IPPROTO_TCP, TCP_INFO, &info, &len))
		return;
	if (info.tcpi_bytes_acked > rails->ctl_acked_bytes)
		rails->ctl_answered_ns = rails->ctl_looked_ns;
	rails->ctl_acked_bytes = info.tcpi_bytes_acked; /* less: it is another one */
	rails->ctl_looked_ns = now_ns;
}

static void say(struct engine_peer *peer, const struct engine_chan *chan,
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

/* One that leaves channels enough to work on. */
static void replace(struct engine_chan *chan, uint32_t *up)
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

/* Full packets are lost for so long that it is no congestion, and smaller ones are not. */
static bool is_hole(struct engine_peer *peer, const struct engine_chan *chan,
		    const struct net_chan_info *info, int64_t now_ns)
{
	struct path_hole *hole = &peer->rails.holes[chan->index];
	int64_t stalled_ns = now_ns - hole->stalled_ns;
	bool young = info->acked_bytes < PROVEN_BYTES;

	if (!stalled_ns) {
		hole->timeouts = 0;
		hole->seen_ns = 0;
	}
	if (!stalled_ns || info->unacked_bytes < info->segment_bytes)
		return false;
	if (!hole->seen_ns)
		hole->seen_ns = now_ns;
	/* Without it its own handshake, which passed just before, says that small ones pass. */
	if (!control_goes_there(peer, chan))
		return young && info->timeouts >= TIMEOUTS && stalled_ns >= HOLE_NS &&
		       hole->stalled_ns - hole->began_ns < HOLE_NS;
	/* After a cut of the network the control link may be answered long before TCP sends the
	 * lost packet again: only what was sent after that counts. An answer of the first second,
	 * or from before the stall was seen, which late beats delay, may have come before the
	 * cut. */
	if (!hole->timeouts && peer->rails.ctl_answered_ns > hole->stalled_ns + CLOCK_S_NS &&
	    peer->rails.ctl_answered_ns > hole->seen_ns + SEEN_NS)
		hole->timeouts = info->timeouts + 1;
	if (!hole->timeouts || info->timeouts < TIMEOUTS || info->last_send_ms < 300)
		return false;
	/* Where full packets have passed the way has changed: the next channel tells. */
	return info->timeouts >= hole->timeouts + !young &&
	       stalled_ns >= (young ? HOLE_NS : peer->link.session->silent_ns);
}

static bool in_vain(struct engine_peer *peer, const struct engine_chan *chan,
		    const struct net_chan_info *info)
{
	char what[160];

	if (info->acked_bytes >= PROVEN_BYTES ||
	    peer->rails.holes[chan->index].in_vain++ < CHANNELS_IN_VAIN)
		return false;
	text_format(what, sizeof(what),
		    "path MTU: packets of %u bytes of payload are not acknowledged, on none of %d "
		    "connections",
		    info->segment_bytes, CHANNELS_IN_VAIN + 1);
	peer_die(peer, TCPX_ERR_PEER_SILENT, EMSGSIZE, what);
	return true;
}

bool path_mtu_in_vain(struct engine_peer *peer, struct engine_chan *chan)
{
	struct net_chan_info info = {0};

	chan_sample_read(chan, &info);
	return in_vain(peer, chan, &info);
}

static void found(struct engine_peer *peer, struct engine_chan *chan,
		  const struct net_chan_info *info, uint32_t *up)
{
	struct path_hole *hole = &peer->rails.holes[chan->index];
	uint16_t next = info->segment_bytes > SEGMENT_V6 ? SEGMENT_V6 : SEGMENT_V4;

	if (in_vain(peer, chan, info))
		return;
	if (info->acked_bytes < PROVEN_BYTES) {
		say(peer, chan, info, next);
		hole->told = next;
		if (peer->dialler)
			limit_rail(peer, peer->rails.of_channel[chan->index], next);
	}
	replace(chan, up);
}

static void look_at(struct engine_peer *peer, struct engine_chan *chan, uint32_t *up,
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
		hole->stalled_ns = now_ns;
	}
	if (!info.unacked_bytes || info.acked_bytes != hole->acked_bytes) {
		hole->stalled_ns = now_ns;
		hole->acked_bytes = info.acked_bytes;
		if (info.acked_bytes >= PROVEN_BYTES)
			hole->in_vain = 0;
	}
	if (*up < 2)
		return;
	if (is_hole(peer, chan, &info, now_ns)) {
		found(peer, chan, &info, up);
		return;
	}
	/* The others of that rail need not find out for themselves. */
	limit = peer->dialler ? path_mtu_channel(peer, peer->rails.of_channel[chan->index]) : 0;
	if (limit && info.segment_bytes > limit)
		replace(chan, up);
}

void path_mtu_look(struct engine_peer *peer, int64_t now_ns)
{
	uint32_t up = path_mtu_settled(peer, now_ns);

	look_at_control(peer, now_ns);
	for (uint32_t i = 0; peer->counted_up && i <= peer->nbulk && !peer->died; i++) {
		struct engine_chan *chan = peer->link.chan[i];

		/* The same-host transport has no interface. */
		if (chan && chan->iface && !chan->sample.late && !comms_slot(peer, i) &&
		    !atomic_load(&chan->failed))
			look_at(peer, chan, &up, now_ns);
	}
}
