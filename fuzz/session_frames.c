/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of fuzz_session's attacker: most are almost right, so that they get deep. */
#include "session_frames.h"

#include "wire/control.h"
#include "wire/table.h"

/* ---- fields ---- */

static const struct raw_seen *seen(const struct raw_ring *ring, uint8_t which)
{
	uint32_t have = ring->count < RAW_LEARNED ? ring->count : RAW_LEARNED;

	return have ? &ring->at[(ring->count - 1 - which % have) % RAW_LEARNED] : NULL;
}

/* A number with a meaning: small, large, learned, a key. */
static uint64_t value(struct wire_cursor *in)
{
	static const struct raw_seen none;
	uint8_t how = wire_get_u8(in), more = how / 8;
	const struct raw_seen *one;

	switch (how % 8) {
	case 0:
		return more;
	case 1:
		return wire_get_u16(in);
	case 2:
		return wire_get_u64(in);
	case 3:
		return UINT64_MAX - more;
	case 4:
		return session_victim.key[more % VICTIM_REGIONS];
	case 5:
		one = seen(&session_raw.reads, more);
		return (one ? one : &none)->xfer;
	case 6:
		one = seen(&session_raw.sends, more);
		return (one ? one : &none)->xfer;
	default:
		one = seen(&session_raw.cts, more);
		return (one ? one : &none)->key;
	}
}

static uint32_t pick_channel(struct wire_cursor *in)
{
	return wire_get_u8(in) % RAW_CHANNELS;
}

/* How a frame goes out: whole and valid, aborted, with an ack, cut in two. */
static void go(struct wire_cursor *in, uint32_t channel, struct frame *frame, const void *table)
{
	uint8_t how = wire_get_u8(in);

	frame->payload_bytes %= RAW_PAYLOAD_MAX + 1;
	frame->flags |= how & FRAME_F_ACK;
	raw_send(&session_raw, channel, frame, table, (uint8_t)(how ^ 0x5a),
		 how % 16 == 15 ? FRAME_ABORTED : FRAME_VALID,
		 how & 0x40 ? wire_get_u16(in) % 9000 : 0);
}

/* ---- frames that are almost right ---- */

static bool region_staged(uint32_t which)
{
	return which == VICTIM_STAGED || which == VICTIM_STAGED_LOCAL;
}

/* Asks for staging; false: what was granted does not suffice yet. */
static bool staging(uint32_t bytes)
{
	struct frame wish = {.type = FRAME_STAGE_REQ};

	session_raw.granted = session_raw.credit[FRAME_CREDIT_STAGE];
	if (session_raw.granted - session_raw.stage_used >= bytes) {
		session_raw.stage_used += bytes;
		return true;
	}
	if (session_raw.stage_wanted < session_raw.stage_used + bytes)
		session_raw.stage_wanted = session_raw.stage_used + bytes;
	wish.linear = session_raw.stage_wanted;
	raw_send(&session_raw, 0, &wish, NULL, 0, FRAME_VALID, 0);
	return false;
}

void session_send_data(struct wire_cursor *in)
{
	uint32_t channel = pick_channel(in), which = wire_get_u8(in) % VICTIM_REGIONS;
	struct frame frame = {.type = FRAME_DATA, .key = session_victim.key[which], .xfer = 7};

	if (which == VICTIM_FRIEND)
		return; /* it would be legal, and spoil the friend's bytes */
	frame.offset = wire_get_u16(in);
	frame.payload_bytes = wire_get_u16(in) % RAW_PAYLOAD_MAX + 1;
	if (region_staged(which)) {
		frame.flags = FRAME_F_STAGED;
		if (!staging(frame.payload_bytes))
			return;
	}
	go(in, channel, &frame, NULL);
}

static uint32_t make_table(struct wire_cursor *in, uint8_t *table, uint64_t *out_bytes,
			   bool *out_staged)
{
	struct wire_table_writer writer;
	uint8_t shape = wire_get_u8(in);
	uint32_t count = 1 + shape % 8;

	*out_bytes = 0;
	*out_staged = false;
	if (shape & 0x80) /* a run */
		count = 1 + wire_get_u16(in) % 1100;
	wire_table_begin(&writer, table, FRAME_TABLE_MAX);
	for (uint32_t i = 0, which = 0, length = 0, offset = 0; i < count; i++) {
		if (!i || !(shape & 0x80)) {
			which = wire_get_u8(in) % VICTIM_FRIEND;
			offset = wire_get_u16(in);
			length = 1 + wire_get_u8(in) * 4u;
		}
		wire_table_put(&writer, session_victim.key[which], offset, length);
		*out_bytes += length;
		*out_staged |= region_staged(which);
		offset += length + (shape >> 4 & 7);
	}
	return (uint32_t)wire_table_end(&writer);
}

void session_send_table(struct wire_cursor *in, bool read)
{
	static uint8_t table[FRAME_TABLE_MAX];
	uint32_t channel = pick_channel(in);
	struct frame frame = {.type = read ? FRAME_READ_REQ : FRAME_DATA, .xfer = 9};
	uint64_t bytes;
	bool staged;

	frame.table_bytes = make_table(in, table, &bytes, &staged);
	if (!frame.table_bytes)
		return;
	if (read) {
		frame.offset = bytes;
		frame.xfer = 1 + wire_get_u8(in) % 4;
	} else if (bytes > RAW_PAYLOAD_MAX) {
		return;
	} else {
		frame.payload_bytes = (uint32_t)bytes;
		if (staged && staging(frame.payload_bytes))
			frame.flags = FRAME_F_STAGED;
	}
	go(in, channel, &frame, table);
}

/* The session READs: what it gets. */
void session_send_rdata(struct wire_cursor *in)
{
	uint32_t channel = pick_channel(in);
	uint8_t how = wire_get_u8(in);
	const struct raw_seen *read = seen(&session_raw.reads, how & 7);
	struct frame frame = {.type = FRAME_RDATA};
	uint64_t skip;

	if (!read)
		return;
	frame.xfer = read->xfer;
	skip = how & 0x10 ? wire_get_u16(in) : 0;
	frame.linear = read->linear + skip;
	frame.payload_bytes = (uint32_t)(skip < read->offset ? read->offset - skip : 1);
	if (how & 0x20)
		frame.payload_bytes = 1 + wire_get_u16(in) % 5000;
	go(in, channel, &frame, NULL);
}

void session_send_message(struct wire_cursor *in)
{
	uint32_t channel = pick_channel(in);
	uint8_t how = wire_get_u8(in);
	struct frame frame = {.type = FRAME_SEND, .xfer = 100 + how % 16};

	frame.linear = how & 0x10 ? value(in) : session_raw.send_number + 1 + (how >> 5 & 1);
	if (!(how & 0x10))
		session_raw.send_number++;
	switch (how >> 6) {
	case 0:
		frame.payload_bytes = wire_get_u16(in) % (RAW_PAYLOAD_MAX + 1);
		break;
	case 1:
		frame.type = FRAME_RTS;
		frame.offset = wire_get_u16(in) * 2u;
		break;
	case 2:
		frame.type = FRAME_CANCEL;
		frame.key = FRAME_CANCEL_SEND;
		frame.offset = wire_get_u8(in);
		break;
	default:
		break; /* empty */
	}
	go(in, channel, &frame, NULL);
}

/* Answers to RTS and CTS of the session. */
void session_send_answer(struct wire_cursor *in)
{
	uint32_t channel = pick_channel(in);
	uint8_t how = wire_get_u8(in);
	const struct raw_seen *cts = seen(&session_raw.cts, how >> 2 & 7),
			      *sent = seen(&session_raw.sends, how >> 2 & 7);
	struct frame frame = {0};

	switch (how & 3) {
	case 0:
	case 1:
		if (!cts)
			return;
		frame.type = FRAME_SDATA;
		frame.xfer = cts->key;
		frame.flags = cts->flags & FRAME_F_STAGED;
		frame.linear = how & 0x20 ? wire_get_u16(in) : 0;
		frame.payload_bytes =
			(uint32_t)(frame.linear < cts->offset ? cts->offset - frame.linear : 1);
		if (how & 0x40)
			frame.payload_bytes = 1 + wire_get_u16(in) % 5000;
		if (frame.payload_bytes > RAW_PAYLOAD_MAX)
			frame.payload_bytes = RAW_PAYLOAD_MAX;
		if (frame.flags && !staging(frame.payload_bytes))
			return;
		break;
	case 2:
		if (!sent)
			return;
		frame.type = FRAME_CTS;
		frame.xfer = sent->xfer;
		frame.key = how;
		frame.offset = how & 0x20 ? wire_get_u16(in) : sent->offset;
		frame.flags = how & 0x40 ? FRAME_F_STAGED : 0;
		break;
	default:
		frame.type = FRAME_FINAL;
		frame.xfer = value(in);
		frame.linear = how & 0x20 ? how >> 5 : 0;
		frame.offset = wire_get_u16(in);
		break;
	}
	go(in, channel, &frame, NULL);
}

/* Behind a WRITE of a few bytes, which is applied, refused, committed later or aborted. */
static void send_behind(struct wire_cursor *in, uint32_t channel, uint32_t which)
{
	struct frame data = {.type = FRAME_DATA, .xfer = 7, .payload_bytes = 8};
	struct frame note = {.type = FRAME_NOTIFY, .key = FRAME_NOTE_PIGGYBACK, .xfer = 7};

	if (which == VICTIM_FRIEND || (region_staged(which) && !staging(data.payload_bytes)))
		return;
	if (region_staged(which))
		data.flags = FRAME_F_STAGED;
	data.key = which < VICTIM_REGIONS ? session_victim.key[which] : value(in);
	note.offset = wire_get_u16(in) % 5000;
	note.payload_bytes = (uint32_t)note.offset;
	go(in, channel, &data, NULL);
	go(in, channel, &note, NULL);
}

void session_send_note(struct wire_cursor *in)
{
	uint32_t channel = pick_channel(in);
	uint8_t how = wire_get_u8(in);
	struct frame frame = {.type = FRAME_NOTIFY, .key = how & 1};
	uint64_t *number = how & 1 ? &session_raw.note_number : &session_raw.attach_number;

	if (how / 16 == 15) {
		send_behind(in, channel, how % 16);
		return;
	}
	frame.xfer = *number + 1;
	frame.offset = wire_get_u16(in) % 20000;
	frame.payload_bytes = (uint32_t)frame.offset;
	if (how & 2) { /* a part */
		frame.linear = wire_get_u16(in) % (frame.offset + 1);
		frame.payload_bytes = (uint32_t)(frame.offset - frame.linear);
		if (how & 4)
			frame.payload_bytes %= 1 + wire_get_u16(in);
	}
	if (how & 8)
		frame.offset = how & 0x80 ? 20000 : 300;
	if (!(how & 0x70)) /* this was its last part */
		++*number;
	go(in, channel, &frame, NULL);
}

void session_send_told(struct wire_cursor *in)
{
	uint32_t channel = pick_channel(in);
	uint8_t how = wire_get_u8(in);
	struct frame frame = {.type = FRAME_ACK};

	switch (how % 4) {
	case 0:
		frame.key = session_raw.chan[channel].rx_seq;
		frame.linear = frame.key - (how & 0x10 ? how >> 5 : 0);
		break;
	case 1:
		frame.type = FRAME_CREDIT;
		frame.key = how >> 2 & 3;
		frame.linear = value(in);
		break;
	case 2:
		frame.type = FRAME_STAGE_REQ;
		frame.linear = session_raw.stage_wanted + wire_get_u16(in);
		frame.key = how & 0x10 ? value(in) : 0;
		frame.offset = how & 0x20 ? value(in) : 0;
		break;
	default:
		frame.type = FRAME_CANCEL;
		frame.key = how >> 2 & 3;
		frame.xfer = how >> 4;
		frame.linear = wire_get_u8(in);
		break;
	}
	raw_send(&session_raw, channel, &frame, NULL, 0, FRAME_VALID, 0);
}

/* ---- anything ---- */

void session_send_anything(struct wire_cursor *in)
{
	static uint8_t table[64];
	uint32_t channel = pick_channel(in);
	struct frame frame = {.type = (uint8_t)(wire_get_u8(in) % 33)};
	uint8_t how = wire_get_u8(in);

	frame.flags = how & 0xf;
	frame.payload_bytes = how & 0x10 ? wire_get_u16(in) : 0;
	frame.table_bytes = how & 0x20 ? wire_get_u8(in) % 64 : 0;
	for (uint32_t i = 0; i < frame.table_bytes; i++)
		table[i] = wire_get_u8(in);
	if (how & 0x40)
		frame.seq = session_raw.chan[channel].next_seq + (wire_get_u8(in) % 3) - 1;
	if (how & 0x80)
		frame.epoch = session_raw.chan[channel].epoch + (wire_get_u8(in) % 3) - 1;
	frame.xfer = value(in);
	frame.linear = value(in);
	frame.key = value(in);
	frame.offset = value(in);
	go(in, channel, &frame, table);
}

void session_send_bytes(struct wire_cursor *in)
{
	uint8_t bytes[128];
	uint32_t channel = pick_channel(in), count = wire_get_u8(in) % 128;

	for (uint32_t i = 0; i < count; i++)
		bytes[i] = wire_get_u8(in);
	raw_send_bytes(&session_raw, channel, bytes, count);
}

void session_send_control(struct wire_cursor *in)
{
	static const uint8_t types[] = {FRAME_HEARTBEAT, FRAME_HEARTBEAT, FRAME_FENCE, FRAME_FENCE,
					FRAME_CHANNELS,	 FRAME_LOCAL,	  FRAME_PAUSE, FRAME_RAILS};
	uint8_t payload[256], how = wire_get_u8(in);
	struct frame frame = {.type = types[how % 8]};
	struct wire_out out = wire_out_of(payload, sizeof(payload));
	struct raw_chan *chan = &session_raw.chan[how >> 4 & 1];

	if (how == 0xff)
		frame.type = FRAME_GOODBYE;
	if (how == 0xfe) {
		frame.type = FRAME_SHARE;
		frame.seq = wire_get_u8(in) % 3; /* its form */
	}
	if (how == 0xfd) {
		frame.type = FRAME_COMM;
		frame.key = wire_get_u8(in) % 6;
		frame.linear = wire_get_u8(in) % 4;
		frame.epoch = wire_get_u8(in) % 3;
	}
	if (frame.type == FRAME_FENCE) {
		frame.key = how >> 4 & 1;
		frame.epoch = chan->epoch;
		frame.linear = chan->rx_seq;
		for (uint32_t i = how >> 6; i; i--)
			wire_put_refusal(&out, wire_get_u8(in), TCPX_ERR_REMOTE);
		frame.payload_bytes = (how >> 6) * WIRE_REFUSAL_BYTES;
	}
	if (how & 8) {
		frame.key = value(in);
		frame.linear = value(in);
		frame.offset = value(in);
		frame.epoch += wire_get_u8(in) % 3;
		frame.payload_bytes = wire_get_u8(in);
		for (uint32_t i = 0; i < frame.payload_bytes; i++)
			payload[i] = wire_get_u8(in);
	}
	raw_control(&session_raw, &frame, payload);
}

void session_change_channel(struct wire_cursor *in)
{
	uint8_t how = wire_get_u8(in);
	uint32_t channel = how >> 4 & 3;
	struct frame fence = {.type = FRAME_FENCE, .key = channel};

	if (channel >= RAW_CHANNELS)
		return;
	fence.epoch = session_raw.chan[channel].epoch;
	fence.linear = session_raw.chan[channel].rx_seq;
	if (how & 1)
		raw_drop_channel(&session_raw, channel);
	if (how & 2)
		raw_control(&session_raw, &fence, NULL);
	if (how & 4)
		raw_redial(&session_raw, channel);
}
