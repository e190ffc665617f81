/* SPDX-License-Identifier: Apache-2.0 */
/* The core of a link against a peer that sends what it likes while requests of ours come and go:
 * each ends once, its memory is left alone afterwards, what the peer makes us keep is bounded, and
 * nothing is left at the end. The input is a program of small commands. */
#include "link_world.h"

#include "wire/cursor.h"
#include "wire/frame_codec.h"

/* What the peer can make us keep: its credits, and a little per frame of ours it has not acked. */
#define KEPT_MAX (8u << 20)

static const uint8_t zeros[CORE_SMALL_BYTES + 1];

/* A number with a meaning: small, large, or the id of a request of ours. */
static uint64_t value(struct world *w, struct wire_cursor *in)
{
	uint8_t how = wire_get_u8(in);
	struct world_xfer *xfer;

	switch (how % 8) {
	case 0:
		return 0;
	case 1:
		return how / 8;
	case 2:
		return wire_get_u16(in);
	case 3:
		return wire_get_u64(in);
	case 4:
		return UINT64_MAX - how / 8;
	case 5:
		return w->link.sendrecv.recv_next + how / 64;
	default:
		xfer = w->xfers[how / 8 % WORLD_XFERS];
		return xfer ? xfer->x.id : 1;
	}
}

static void rx_finish(struct world *w, uint32_t channel, uint8_t how)
{
	struct world_rx *rx = &w->rx[channel];
	const struct frame *frame = &rx->frame;
	bool valid = !frame->payload_bytes || how % 8 != 7;
	bool staged = rx->rx.kind == CORE_RX_REGION ? frame->flags & FRAME_F_STAGED
						    : rx->rx.kind == CORE_RX_SEGS && !rx->scratch &&
							      rx->rx.xfer->local_staged;
	struct world_later *later = NULL;
	tcpx_status status = TCPX_OK;

	if (rx->rx.kind == CORE_RX_SEGS && !rx->scratch)
		FUZZ_CHECK(LIST_ENTRY(rx->rx.xfer, struct world_xfer, x)->active);
	if (rx->rx.kind == CORE_RX_NOTE && !rx->scratch)
		memset(rx->rx.note->data + frame->linear, how, frame->payload_bytes);
	if (rx->rx.kind == CORE_RX_LIST) {
		if (how % 4 && frame->offset && frame->offset < 1u << 30)
			world_push(w, frame);
		else
			core_resp_refuse(&w->link, frame->xfer, TCPX_ERR_REMOTE_KEY);
	}
	if (rx->rx.kind == CORE_RX_REGION && how % 8 == 6)
		status = TCPX_ERR_REMOTE_RANGE;
	else if (staged && valid && (later = world_later_new(w)) != NULL)
		status = TCPX_IN_PROGRESS;
	if (later)
		*later = (struct world_later){
			.used = true,
			.channel = channel,
			.epoch = frame->epoch,
			.seq = frame->seq,
			.id = rx->rx.kind == CORE_RX_SEGS ? rx->rx.xfer->id : 0,
			.bytes = frame->payload_bytes,
			.staged = frame->flags & FRAME_F_REF ? 0 : frame->payload_bytes,
		};
	rx->busy = false;
	status = core_rx_end(&w->link, channel, valid, valid ? status : TCPX_OK, zeros);
	if (status != TCPX_OK && !w->link.dead)
		world_fail(w, status);
	world_settle(w);
}

/* A frame arrives, all of it or a part. */
static void arrives(struct world *w, struct wire_cursor *in, uint32_t channel, struct frame frame)
{
	struct world_rx *rx = &w->rx[channel];
	uint8_t how, bytes[FRAME_HEADER_BYTES];
	tcpx_status status;

	if (rx->busy || w->link.chan[channel].state != CORE_CHAN_UP)
		return;
	wire_frame_encode(&frame, bytes);
	if (wire_frame_decode(bytes, &frame))
		return; /* the engine would end the peer */
	status = core_rx_begin(&w->link, channel, &frame, &rx->rx);
	if (status != TCPX_OK) {
		world_fail(w, status);
		world_settle(w);
		return;
	}
	rx->busy = true;
	rx->frame = frame;
	rx->scratch = rx->rx.kind == CORE_RX_SCRATCH;
	how = wire_get_u8(in);
	if (frame.payload_bytes && how & 0x80) /* the rest comes later */
		rx->scratch |= core_rx_pause(&w->link, channel);
	else
		rx_finish(w, channel, how);
}

static void peer_frame(struct world *w, struct wire_cursor *in)
{
	uint32_t channel = wire_get_u8(in) % WORLD_CHANNELS;
	struct core_chan *chan = &w->link.chan[channel];
	struct frame frame = {0};
	uint8_t how;

	frame.type = (uint8_t)(wire_get_u8(in) % 18);
	how = wire_get_u8(in);
	frame.flags = how & 0xf;
	frame.payload_bytes = how & 0x10 ? wire_get_u16(in) : how & 0x20 ? 100 : 0;
	frame.table_bytes = how & 0x40 ? 8 : 0;
	frame.epoch = chan->epoch;
	if (frame.type != FRAME_ACK && frame.type != FRAME_CREDIT && frame.type != FRAME_STAGE_REQ)
		frame.seq = chan->rxseq.begun + 1;
	if (how & 0x80) {
		frame.epoch ^= wire_get_u8(in) & 1;
		frame.seq ^= wire_get_u8(in) & 3;
	}
	frame.xfer = value(w, in);
	frame.linear = value(w, in);
	frame.key = value(w, in);
	frame.offset = value(w, in);
	arrives(w, in, channel, frame);
}

/* A whole WRITE and the notification behind it, or that alone. */
static void peer_behind(struct world *w, struct wire_cursor *in)
{
	uint32_t channel = wire_get_u8(in) % WORLD_CHANNELS, size = 8;
	const struct core_chan *chan = &w->link.chan[channel];
	const struct core_stage_in *stage = &w->link.stage_in;
	uint8_t how = wire_get_u8(in);
	struct frame data = {.type = FRAME_DATA, .xfer = how / 32, .payload_bytes = size};
	struct frame note = {.type = FRAME_NOTIFY, .key = FRAME_NOTE_PIGGYBACK, .xfer = how / 32};
	struct frame wish = {.type = FRAME_STAGE_REQ,
			     .linear = stage->requested + size,
			     .key = stage->withdrawn,
			     .offset = stage->dropped};

	if (how & 1) {
		wish.epoch = chan->epoch;
		data.flags = FRAME_F_STAGED;
		arrives(w, in, channel, wish);
	}
	data.epoch = note.epoch = chan->epoch;
	data.seq = chan->rxseq.begun + 1;
	if (!(how & 2) && !w->link.dead)
		arrives(w, in, channel, data);
	if (w->link.dead)
		return;
	note.seq = chan->rxseq.begun + 1;
	note.offset = note.payload_bytes = wire_get_u8(in);
	note.xfer += (how & 0x1c) == 0x1c;
	note.offset += (how & 0x1c) == 0x18;
	arrives(w, in, channel, note);
}

static void rx_continue(struct world *w, struct wire_cursor *in)
{
	uint32_t channel = wire_get_u8(in) % WORLD_CHANNELS;
	uint8_t how = wire_get_u8(in);

	if (!w->rx[channel].busy)
		return;
	w->rx[channel].scratch |= core_rx_resume(&w->link, channel);
	rx_finish(w, channel, how);
}

/* The owner of the memory that a frame is read from. */
static struct world_xfer *owner_of(struct world *w, const struct core_segs *segs)
{
	for (uint32_t i = 0; i < WORLD_XFERS; i++)
		if (w->xfers[i] && &w->xfers[i]->segs == segs)
			return w->xfers[i];
	return NULL;
}

static void send_frames(struct world *w, struct wire_cursor *in)
{
	uint32_t channel = wire_get_u8(in) % WORLD_CHANNELS;
	struct world_tx *tx = &w->tx[channel];
	uint8_t how = wire_get_u8(in);

	for (int i = 0; i <= how % 16 && !w->link.dead; i++) {
		if (w->link.chan[channel].state != CORE_CHAN_UP)
			return;
		if (tx->busy) {
			tx->aborted |= core_tx_resume(&w->link, channel);
		} else if (core_tx_next(&w->link, channel, &tx->tx)) {
			tx->aborted = false;
			tx->xfer = owner_of(w, tx->tx.segs);
		} else {
			return;
		}
		if (tx->xfer && !tx->aborted)
			FUZZ_CHECK(tx->xfer->active);
		if (tx->tx.segs && !tx->aborted) /* a read response is freed when it ends */
			FUZZ_CHECK(tx->tx.segs->seg[tx->tx.at.seg].linear <= tx->tx.segs->total);
		if (tx->tx.bytes && !tx->aborted && tx->tx.frame.payload_bytes)
			FUZZ_CHECK(
				((const uint8_t *)tx->tx.bytes)[tx->tx.frame.payload_bytes - 1] ==
				0);
		tx->busy = how & 0x80 && tx->tx.frame.payload_bytes && i == how % 16;
		if (tx->busy)
			tx->aborted |= core_tx_pause(&w->link, channel);
		else
			core_tx_sent(&w->link, channel, !tx->aborted);
		world_settle(w);
	}
}

static void peer_ack(struct world *w, struct wire_cursor *in)
{
	uint32_t channel = wire_get_u8(in) % WORLD_CHANNELS;
	struct core_chan *chan = &w->link.chan[channel];
	uint64_t used = chan->inflight.next_seq - 1 - chan->inflight.acked_seq;
	struct frame frame = {.type = FRAME_ACK, .epoch = chan->epoch};
	struct core_rx rx;
	tcpx_status status;

	frame.linear = chan->inflight.acked_seq + (used ? wire_get_u8(in) % (used + 1) : 0);
	frame.key = frame.linear;
	if (chan->state != CORE_CHAN_UP || w->rx[channel].busy)
		return;
	FUZZ_CHECK(core_rx_begin(&w->link, channel, &frame, &rx) == TCPX_OK);
	status = core_rx_end(&w->link, channel, true, TCPX_OK, zeros);
	if (status != TCPX_OK) /* it acknowledged what is still under way */
		world_fail(w, status);
	world_settle(w);
}

static void channel_change(struct world *w, struct wire_cursor *in)
{
	uint32_t channel = wire_get_u8(in) % WORLD_CHANNELS;
	struct core_chan *chan = &w->link.chan[channel];
	uint8_t how = wire_get_u8(in);
	struct core_nack nacks[2] = {{.seq = how, .status = TCPX_ERR_REMOTE},
				     {.seq = how / 2, .status = TCPX_ERR_REMOTE_KEY}};
	tcpx_status status;

	switch (how % 4) {
	case 0:
		world_lost(w, channel);
		break;
	case 1:
		status = core_chan_up(&w->link, channel, chan->epoch + how / 128 + 1);
		FUZZ_CHECK(status != TCPX_OK || !w->rx[channel].busy);
		break;
	default:
		status = core_chan_fence(&w->link, channel, chan->epoch + (how % 8 == 7),
					 chan->inflight.acked_seq + how / 16, nacks, how / 4 % 3);
		if (status != TCPX_OK && !w->link.dead)
			world_fail(w, status);
	}
	world_settle(w);
}

static void small_things(struct world *w, struct wire_cursor *in)
{
	uint8_t how = wire_get_u8(in);
	uint32_t slot = how / 16 % WORLD_XFERS;

	switch (how % 8) {
	case 0:
		if (w->notes) {
			core_note_consumed(&w->link, w->unread / w->notes, w->notes == 1);
			w->unread -= w->unread / w->notes;
			w->notes--;
		}
		break;
	case 1:
		(void)core_note_send(&w->link, zeros, how * 5u);
		break;
	case 2:
		(void)core_link_expire(&w->link, how < 128 ? 50 : 200);
		break;
	case 3:
		core_link_ask(&w->link);
		break;
	case 4:
		core_stage_more(&w->link);
		break;
	case 5:
		w->no_memory = true;
		break;
	case 6:
		if (!list_empty(&w->link.resps))
			core_resp_stop(&w->link,
				       LIST_ENTRY(w->link.resps.next, struct core_resp, node),
				       TCPX_ERR_DEREGISTERED);
		break;
	case 7:
		if (w->xfers[slot] && w->xfers[slot]->active)
			(void)core_xfer_cancel(&w->link, &w->xfers[slot]->x, TCPX_ERR_CANCELLED);
		break;
	}
	world_settle(w);
}

static void command(struct world *w, struct wire_cursor *in)
{
	uint8_t what = wire_get_u8(in), slot;
	uint32_t total;

	switch (what % 10) {
	case 0:
		slot = wire_get_u8(in);
		total = wire_get_u16(in);
		world_post(w, slot % WORLD_XFERS, (enum tcpx_op)(1 + slot / WORLD_XFERS % 5),
			   what & 0x10 ? total * 4 : total, wire_get_u16(in));
		break;
	case 1:
		world_release(w, wire_get_u8(in) % WORLD_XFERS);
		break;
	case 2:
		send_frames(w, in);
		break;
	case 3:
		peer_ack(w, in);
		break;
	case 4:
		channel_change(w, in);
		break;
	case 5:
		small_things(w, in);
		break;
	case 6:
		rx_continue(w, in);
		break;
	case 7:
		slot = wire_get_u8(in);
		world_later_end(w, slot % WORLD_LATER, slot & 0x80 ? TCPX_ERR_REMOTE : TCPX_OK);
		break;
	default:
		if (what < 240)
			peer_frame(w, in);
		else
			peer_behind(w, in);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world w;
	struct wire_cursor in = wire_cursor_of(data, size);

	world_open(&w);
	while (wire_left(&in) && !w.link.dead) {
		command(&w, &in);
		FUZZ_CHECK(w.memory <= KEPT_MAX);
	}
	world_close(&w);
	return 0;
}
