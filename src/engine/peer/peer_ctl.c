/* SPDX-License-Identifier: Apache-2.0 */
/* The control connection of a peer: arriving frames, heartbeats, and whether the peer is alive. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/peer/peer_calls.h"
#include "engine/link/here.h"
#include "engine/peer/carrier.h"
#include "engine/channel/comms.h"
#include "engine/request/pending.h"
#include "engine/peer/path_mtu.h"
#include "engine/peer/peer_route.h"
#include "engine/peer/rails.h"
#include "engine/path/share.h"
#include "sys/addr.h"
#include "wire/control.h"

static tcpx_status ctl_take_fence(struct engine_peer *peer, const struct frame *frame,
				  const void *payload)
{
	uint32_t max = frame->payload_bytes / WIRE_REFUSAL_BYTES + 1, count = 0;
	struct core_nack *nacks = calloc(max, sizeof(*nacks));
	struct wire_cursor cursor;
	tcpx_status status, why;
	int more;

	if (!nacks)
		return TCPX_ERR_NO_MEMORY;
	cursor = wire_cursor_of(payload, frame->payload_bytes);
	while (count < max && (more = wire_get_refusal(&cursor, &nacks[count].seq, &why)) > 0)
		nacks[count++].status = why;
	if (frame->key < CORE_CHANNELS_MAX)
		path_mtu_apply(peer, (uint32_t)frame->key, frame->offset);
	link_lock(&peer->link);
	if (frame->key >= CORE_CHANNELS_MAX || more < 0)
		status = TCPX_ERR_PROTOCOL;
	else
		status = core_chan_fence(&peer->link.core, (uint32_t)frame->key, frame->epoch,
					 frame->linear, nacks, count);
	link_unlock(&peer->link);
	free(nacks);
	return status;
}

static tcpx_status ctl_take_rails(struct engine_peer *peer, const struct frame *frame,
				  const void *payload)
{
	bool here = here_now_is(&peer->address.remote);
	struct wire_address addrs[WIRE_ADDR_MAX];
	char text[SYS_ADDR_TEXT];
	uint32_t count;
	tcpx_status status;

	status = wire_rails_decode(payload, frame->payload_bytes, addrs, &count);
	if (status != TCPX_OK)
		return status;
	peer->address.count = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct sockaddr_storage *addr = &peer->address.known[peer->address.count];

		peer_addr_from_wire(&addrs[i], addr);
		if (sys_addr_may_dial(addr, &peer->address.remote, here))
			peer->address.count++;
		else
			LOG_INFO("peer '%s': its rail %s is not dialled: the address is not "
				 "valid on the way to it",
				 peer->who.name, sys_addr_text(addr, text));
	}
	return TCPX_OK;
}

static tcpx_status ctl_take_local(struct engine_peer *peer, const struct frame *frame,
				  const void *payload)
{
	struct wire_local local;
	tcpx_status status = wire_local_decode(payload, frame->payload_bytes, &local);

	if (status != TCPX_OK)
		return status;
	memcpy(peer->shared_memory.name, local.name, sizeof(peer->shared_memory.name));
	/* The acceptor made the nonce of the link itself. From the dialler's frame it takes only
	 * the name of the dialler's local listener, which is used to fetch descriptors. */
	if (!peer->dialler)
		return TCPX_OK;
	memcpy(peer->shared_memory.nonce, local.nonce, sizeof(peer->shared_memory.nonce));
	peer->shared_memory.have_offer = true;
	return TCPX_OK;
}

static void ctl_take_heartbeat(struct engine_peer *peer, const struct frame *frame, int64_t now)
{
	core_alive_heard_beat(&peer->control.alive, now);
	peer->control.echo_ns = frame->linear;
	if (frame->offset && frame->offset <= (uint64_t)now)
		atomic_store(&peer->control.rtt_ns, now - (int64_t)frame->offset);
}

static tcpx_status ctl_on_frame(void *arg, const struct frame *frame, const void *payload)
{
	struct engine_peer *peer = arg;
	int64_t now = clock_now_ns();

	core_alive_heard(&peer->control.alive, now);
	switch (frame->type) {
	case FRAME_HEARTBEAT:
		ctl_take_heartbeat(peer, frame, now);
		return TCPX_OK;
	case FRAME_GOODBYE:
		losses_forget(peer); /* the peer closed its channels on purpose; log no loss */
		peer_die(peer, TCPX_ERR_PEER_CLOSED, 0, "peer said goodbye");
		return TCPX_OK;
	case FRAME_FENCE:
		return ctl_take_fence(peer, frame, payload);
	case FRAME_SHARE:
		return share_take(peer, frame, payload);
	case FRAME_COMM:
		return comms_frame(peer, frame, payload);
	case FRAME_RAILS:
		return ctl_take_rails(peer, frame, payload);
	case FRAME_LOCAL:
		return ctl_take_local(peer, frame, payload);
	case FRAME_CHANNELS:
		if (peer->dialler && !peer->dialling.channels_begun) {
			peer->dialling.channels_begun = true;
			peer_dial_channels(peer);
		}
		return TCPX_OK;
	case FRAME_PAUSE:
		core_alive_heard_pause(&peer->control.alive, now,
				       frame->linear < 600000 ? (int64_t)frame->linear * CLOCK_MS_NS
							      : 600 * CLOCK_S_NS);
		return TCPX_OK;
	default:
		return TCPX_ERR_PROTOCOL;
	}
}

/* Called when the control connection is lost. Ends the peer if it is not up, or if `status` is a
 * breach of the protocol or ERR_LIMIT. Otherwise the dialling side dials the connection again; the
 * peer ends if that takes longer than the silence limit. */
static void ctl_on_lost(void *arg, tcpx_status status, int err)
{
	struct engine_peer *peer = arg;

	if (peer->control.link)
		ctl_link_close(peer->control.link);
	peer->control.link = NULL;
	if (!peer->counted_up || status == TCPX_ERR_PROTOCOL || status == TCPX_ERR_CORRUPT ||
	    status == TCPX_ERR_VERSION || status == TCPX_ERR_LIMIT) {
		peer_die(peer, status, err, "control link lost");
		return;
	}
	peer->control.lost_ns = clock_now_ns();
	peer->control.stuck_ns = 0;
	losses_add_control(peer, error_status_text(status));
	if (peer->dialler)
		peer_dial_control(peer);
}

void peer_control_lost(struct engine_peer *peer, tcpx_status status, int err)
{
	ctl_on_lost(peer, status, err);
}

const struct ctl_link_ops peer_ctl_ops = {.frame = ctl_on_frame, .lost = ctl_on_lost};

void peer_send_goodbye(struct engine_peer *peer)
{
	struct frame frame = {.type = FRAME_GOODBYE};

	if (peer->control.link)
		ctl_link_send(peer->control.link, &frame, NULL);
}

/* Reads from our kernel whether the peer's kernel acknowledges the control connection, and passes
 * the result to the core. Sets stuck_ns to the time since when nothing was acknowledged, or to 0 if
 * something was, or if no bytes wait for an acknowledgement. */
static void ctl_sample(struct engine_peer *peer, int64_t now)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);
	bool progress, unacked;

	if (!peer->control.link ||
	    getsockopt(ctl_link_fd(peer->control.link), IPPROTO_TCP, TCP_INFO, &info, &len))
		return;
	/* An ACK alone is no progress, because each packet of the peer carries one, even if it
	 * acknowledges nothing new. Progress means that more bytes are acknowledged than at the
	 * last heartbeat. */
	progress = info.tcpi_bytes_acked != peer->control.acked_bytes;
	peer->control.acked_bytes = info.tcpi_bytes_acked;
	/* Bytes that are not sent yet, because a local filter or a dead route holds them back, also
	 * count as unacknowledged. */
	unacked = info.tcpi_unacked || info.tcpi_notsent_bytes;
	core_alive_sample(&peer->control.alive,
			  now - (int64_t)info.tcpi_last_ack_recv * CLOCK_MS_NS, unacked, progress);
	if (!unacked || progress)
		peer->control.stuck_ns = 0;
	else if (!peer->control.stuck_ns)
		peer->control.stuck_ns = now;
}

/* Whether this side must dial the control connection again, over another rail. It must if it is the
 * dialler, the peer is up, the session has several rails, and nothing was acknowledged for a third
 * of the silence limit. Does not check whether another rail works. */
static bool ctl_hangs(const struct engine_peer *peer, int64_t now)
{
	return peer->dialler && peer->control.link && peer->counted_up &&
	       peer->link.session->rails.count > 1 && peer->control.stuck_ns &&
	       now - peer->control.stuck_ns >= peer->link.session->tuning.silent_ns / 3;
}

/* Acts on the core's verdict about whether the peer is alive. */
static void ctl_judge(struct engine_peer *peer, enum core_alive_verdict verdict)
{
	switch (verdict) {
	case CORE_ALIVE_OK:
		break;
	case CORE_ALIVE_SUSPECT:
		if (!peer->counted_up)
			/* only a peer that was up is reported as suspect */
			break;
		LOG_WARN("peer '%s': no sign of life for %d s", peer->who.name,
			 (int)(peer->control.alive.cfg.suspect_ns / CLOCK_S_NS));
		peer_set_state(peer, TCPX_PEER_SUSPECT);
		peer_event(peer, TCPX_EVENT_PEER_SUSPECT, TCPX_OK, 0);
		break;
	case CORE_ALIVE_RECOVERED:
		if (!peer->counted_up)
			break;
		peer_set_state(peer, TCPX_PEER_UP);
		peer_event(peer, TCPX_EVENT_PEER_RECOVERED, TCPX_OK, 0);
		break;
	case CORE_ALIVE_DEAD_SILENT:
		peer_die(peer, TCPX_ERR_PEER_SILENT, 0, "peer silent: no sign of life in time");
		break;
	case CORE_ALIVE_DEAD_STOPPED:
		peer_die(peer, TCPX_ERR_PEER_STOPPED, 0,
			 "peer stopped: its kernel answers, its process does not");
		break;
	}
}

static void ctl_heard_on_channels(struct engine_peer *peer, int64_t now)
{
	for (uint32_t i = 0; i <= peer->nbulk; i++) {
		struct engine_chan *chan = peer->link.chan[i];

		if (!chan)
			continue;
		chan_trim(chan, now);
		core_alive_heard(&peer->control.alive,
				 atomic_load_explicit(&chan->heard_ns, memory_order_relaxed));
	}
}

/* One heartbeat of a peer: checks its channels and rails, sends a heartbeat frame if one is due,
 * and decides whether the peer is alive. Any of these steps may end the peer. If the peer lives,
 * sets the timer for the next heartbeat. */
static void ctl_beat(struct engine_peer *peer, int64_t now_ns)
{
	struct engine_peer *holder;
	enum core_alive_verdict verdict;
	int64_t due;

	/* If the timer is late, this process may have been stopped for a time. Count what arrived
	 * during that time before anything is decided. */
	ctl_heard_on_channels(peer, now_ns);
	carrier_look(peer, now_ns);
	losses_look(peer, now_ns);
	comms_beat(peer, now_ns);
	rails_look(peer, now_ns);
	path_mtu_look(peer, now_ns);
	if (peer->died)
		return;
	ctl_sample(peer, now_ns);
	link_lock(&peer->link);
	if (!list_empty(&peer->pending.notes) && peer->link.core_ready && !peer->link.core.dead)
		pending_notes_go(peer);
	link_unlock(&peer->link);
	pending_say_too_long(peer);
	holder = account_look(peer->link.session, now_ns);
	if (holder) {
		peer_die_last(holder);
		peer_put(holder);
	}
	if (peer->died)
		return;
	if (core_alive_beat_due(&peer->control.alive, now_ns) && peer->control.link) {
		struct frame frame = {.type = FRAME_HEARTBEAT,
				      .linear = (uint64_t)now_ns,
				      .offset = peer->control.echo_ns};

		link_tell(&peer->link, &frame, NULL);
	}
	if (peer->died)
		return;
	verdict = core_alive_tick(&peer->control.alive, now_ns, &due);
	ctl_judge(peer, verdict);
	if (peer->died)
		return;
	if (ctl_hangs(peer, now_ns))
		ctl_on_lost(peer, TCPX_ERR_PEER_SILENT, 0);
	if (peer->control.link && peer->control.stuck_ns &&
	    now_ns - peer->control.stuck_ns >= peer->link.session->tuning.silent_ns) {
		/* Packets of the peer may still arrive. In that case only our packets are lost. */
		peer_die(peer, TCPX_ERR_PEER_SILENT, 0, "peer silent: it acknowledges nothing");
		return;
	}
	if (!peer->control.link && peer->counted_up &&
	    now_ns - peer->control.lost_ns > peer->link.session->tuning.silent_ns) {
		peer_die(peer, TCPX_ERR_PEER_SILENT, 0, "control link did not come back");
		return;
	}
	sys_timer_set(&engine_runtime.loop, &peer->control.timer, due);
}

void peer_beat(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer *peer = LIST_ENTRY(timer, struct engine_peer, control.timer);

	/* a peer that dies before it is up may be freed at once, so hold a reference */
	peer_get(peer);
	ctl_beat(peer, now_ns);
	peer_put(peer);
}
