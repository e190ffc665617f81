/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving side of a plugin channel: frames of the guide and the messages that they
 * announce. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "plugin/messages_priv.h"
#include "wire/frame_codec.h"

/* If no receive of a channel is done for 1 / STUCK_PARTS of the message timeout, its posted
 * receives no longer count towards the limit of the page pool (messages_pool_stuck). */
#define STUCK_PARTS 8

/* Handles one complete frame of the guide. An ACK replaces an earlier ACK that recv has not begun
 * to return. Any other frame goes to the end of `waiting`. Returns IN_PROGRESS for an ACK that
 * cannot be taken now, which stays in the guide's buffer. Returns ERR_PROTOCOL for a frame that is
 * not allowed on a plugin channel, and for a message that is too large or exceeds the window. */
static tcpx_status guide_take_frame(struct messages *m, const uint8_t *header)
{
	struct waiting *w = waiting_at(m, m->count);
	struct frame frame;
	tcpx_status status = wire_frame_decode(header, &frame);
	bool message;

	if (status != TCPX_OK)
		return status;
	message = frame.flags & FRAME_F_MSG && frame.payload_bytes;
	if (frame.table_bytes || (!message && frame.type != FRAME_ACK && frame.type != FRAME_NACK &&
				  frame.type != FRAME_NOP))
		return error_set(TCPX_ERR_PROTOCOL, 0, "frame of type %u on a plugin channel",
				 frame.type);
	if (frame.type == FRAME_ACK) {
		/* An ACK that recv has returned in part must not change: the new one stays in the
		 * guide's buffer until recv has returned the rest. */
		if (!m->in_ack)
			memcpy(m->ack, header, sizeof(m->ack));
		m->acked = true;
		return m->in_ack ? TCPX_IN_PROGRESS : TCPX_OK;
	}
	if (message && (frame.payload_bytes > m->o.message_bytes || m->messages == m->o.window))
		return error_set(TCPX_ERR_PROTOCOL, 0,
				 "the peer announced a message of %u bytes while %u wait; at most "
				 "%u of %u bytes are agreed",
				 frame.payload_bytes, m->messages, m->o.window, m->o.message_bytes);
	*w = (struct waiting){.seq = frame.seq,
			      .bytes = message ? frame.payload_bytes : 0,
			      .nack = frame.type == FRAME_NACK};
	m->nacks += w->nack;
	memcpy(w->header, header, sizeof(w->header));
	if (message) {
		w->slot = m->next_slot;
		m->next_slot = (m->next_slot + 1) % m->o.window;
		m->messages++;
	}
	m->count++;
	return TCPX_OK;
}

/* Handles the complete frames in the guide's buffer, until `waiting` is full or an ACK cannot be
 * taken now. */
static tcpx_status guide_take_frames(struct messages *m)
{
	uint32_t used = 0;
	tcpx_status status = TCPX_OK;

	while (status == TCPX_OK && m->have - used >= FRAME_HEADER_BYTES && m->count < WAITING) {
		status = guide_take_frame(m, m->guide + used);
		if (status == TCPX_OK)
			used += FRAME_HEADER_BYTES;
	}
	memmove(m->guide, m->guide + used, m->have - used);
	m->have -= used;
	return status < 0 ? status : TCPX_OK;
}

/* Reads frames from the guide and handles them, until no more have arrived or one cannot be handled
 * now. The end of the guide is not an error yet: m->ended keeps the status. */
static tcpx_status guide_read(struct messages *m)
{
	tcpx_status status = guide_take_frames(m);

	while (status == TCPX_OK && m->ended == TCPX_OK && m->have < FRAME_HEADER_BYTES) {
		struct iovec iov = {m->guide + m->have, sizeof(m->guide) - m->have};
		size_t got = 0;

		status = m->o.guide->ops->recv(m->o.guide, &iov, 1, &got);
		if (status == TCPX_OK) {
			m->have += (uint32_t)got;
			status = guide_take_frames(m);
		} else if (status < 0) {
			m->ended = status; /* recv returns it later (messages.ended) */
			return TCPX_OK;
		}
	}
	return status < 0 ? status : TCPX_OK;
}

/* Returns the address that is passed to irecv for the frame's message. */
static void *waiting_place(const struct messages *m, const struct waiting *w)
{
	return m->o.bounce ? m->o.bounce + (size_t)w->slot * m->o.message_bytes : m->o.landing;
}

static void trace_receive(const struct waiting *w)
{
	struct frame frame;

	if (log_level < TCPX_LOG_TRACE || wire_frame_decode(w->header, &frame) != TCPX_OK)
		return;
	LOG(TCPX_LOG_TRACE, "[PERF][SERVER] chunk_idx=%llu tag=%u size=%u offset=%llu frame=%llu",
	    (unsigned long long)w->number, net_comm_tag(w->number), w->bytes,
	    (unsigned long long)frame.linear, (unsigned long long)frame.seq);
}

/* Posts receives for the messages of arrived frames, in the order of the frames, until one cannot
 * be posted now. An error ends the channel. */
static tcpx_status post_receives(struct messages *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		struct waiting *w = waiting_at(m, i);
		tcpx_status status;

		if (!w->bytes || w->posted)
			continue;
		if (m->pool.pool && !w->pages &&
		    !(w->pages = messages_pool_take(&m->pool, w->bytes, clock_now_ns())))
			return TCPX_OK;
		status = net_comm_recv(m->o.in, m->o.bounce_mr, waiting_place(m, w),
				       m->o.message_bytes, &w->number);
		if (status != TCPX_OK && m->pool.pool) {
			messages_pool_untake(&m->pool, w->pages);
			w->pages = 0;
		}
		if (status != TCPX_OK)
			return status < 0 && status != TCPX_ERR_AGAIN ? status : TCPX_OK;
		w->posted = true;
		message_counted(&m->counts.posted);
		trace_receive(w);
		if (!m->posted++)
			m->came_ns = clock_now_ns();
	}
	return TCPX_OK;
}

/* Returns the frame of the oldest message that is not done. Returns NULL if there is none, or if
 * its receive is not posted. */
static struct waiting *oldest_posted(struct messages *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		struct waiting *w = waiting_at(m, i);

		if (w->bytes && !w->done)
			return w->posted ? w : NULL;
	}
	return NULL;
}

/* Reports to the page pool the fragments in which a frame's message arrived. */
static void receive_count_pages(struct messages *m, const struct waiting *w)
{
	unsigned slot = net_comm_slot(m->o.in, w->number);
	uint64_t count = *(const volatile uint64_t *)&m->o.meta->count[slot];

	messages_pool_done(&m->pool, w->pages, w->bytes,
			   (const struct base_frag *)m->o.meta->pieces[slot],
			   count < NCCLNET_QUEUE_PIECES ? count : NCCLNET_QUEUE_PIECES, m->came_ns);
}

/* Marks the frames whose receives are done. An error ends the channel. */
static tcpx_status poll_received(struct messages *m)
{
	while (m->posted) {
		struct waiting *w = oldest_posted(m);
		uint64_t number;
		size_t bytes;
		tcpx_status status = net_comm_poll(m->o.in, &number, &bytes);

		if (status != TCPX_OK)
			return status < 0 ? status : TCPX_OK;
		if (!w || number != w->number || (bytes != NET_COMM_UNKNOWN && bytes != w->bytes))
			return error_set(TCPX_ERR_CHANNEL_LOST, 0,
					 "the plugin received message %llu with %zu bytes; its "
					 "frame says %u",
					 (unsigned long long)number, bytes, w ? w->bytes : 0);
		w->done = true;
		message_counted(&m->counts.done);
		m->posted--;
		m->came_ns = clock_now_ns();
		if (m->pool.pool)
			receive_count_pages(m, w);
	}
	return TCPX_OK;
}

static tcpx_status poll_sent(struct messages *m)
{
	while (m->sending) {
		uint64_t number;
		size_t bytes;
		tcpx_status status = net_comm_poll(m->o.out, &number, &bytes);

		if (status != TCPX_OK)
			return status < 0 ? status : TCPX_OK;
		m->sending--;
		message_counted(&m->counts.sends_done);
		atomic_store_explicit(&m->sent_ns, m->sending ? clock_now_ns() : 0,
				      memory_order_relaxed);
	}
	return TCPX_OK;
}

static const char *frame_op_name(uint8_t frame_type)
{
	return frame_type == FRAME_RDATA ? "READ" : frame_type == FRAME_SDATA ? "SEND" : "WRITE";
}

/* Sets the error for a message that is late, and returns ERR_CHANNEL_LOST. `of` describes the
 * message, `what` says what was not done in time, and `hint` is a possible cause or "". */
static tcpx_status message_stalled(const struct messages *m, uint64_t number, const struct sent *of,
				   const char *what, const char *hint)
{
	return error_set(
		TCPX_ERR_CHANNEL_LOST, 0,
		"message %llu (tag %u, %u bytes at offset %llu of a %s, frame %llu) was %s "
		"within %lld ms%s",
		(unsigned long long)number, net_comm_tag(number), of->bytes,
		(unsigned long long)of->linear, frame_op_name(of->type),
		(unsigned long long)of->seq, what, (long long)(m->o.timeout_ns / CLOCK_MS_NS),
		hint);
}

/* Writes a hint if fewer pages of the page pool have been seen than the message needs, otherwise
 * "". If a page pool is too small, the plugin never completes the receive and reports no error. */
static void receive_pool_hint(const struct messages *m, uint32_t bytes, char *out, size_t size)
{
	struct messages_pool_info info;

	out[0] = '\0';
	if (!m->pool.pool)
		return;
	messages_pool_info(&m->pool, bytes, &info);
	if (info.known < info.need)
		text_format(out, size,
			    "; %llu pages of the GPU's pool seen, %llu needed: a smaller "
			    "NCCL_DYNAMIC_CHUNK_SIZE may help",
			    (unsigned long long)info.known, (unsigned long long)info.need);
}

static tcpx_status receive_stalled(struct messages *m)
{
	const struct waiting *w = oldest_posted(m);
	struct frame frame = {0};
	struct sent of;
	char hint[128];

	(void)wire_frame_decode(w->header, &frame); /* valid: it was decoded on arrival */
	of = (struct sent){w->seq, frame.linear, w->bytes, frame.type};
	receive_pool_hint(m, w->bytes, hint, sizeof(hint));
	return message_stalled(m, w->number, &of, "announced and did not arrive", hint);
}

/* Returns an error if the oldest receive or send takes longer than the message timeout, because a
 * plugin may stall without an error. A receive that takes longer than 1 / STUCK_PARTS of the
 * timeout is reported to the page pool. */
static tcpx_status messages_check_time(struct messages *m)
{
	int64_t now = m->posted || m->sending ? clock_now_ns() : 0;

	if (m->posted && m->pool.pool && now - m->came_ns > m->o.timeout_ns / STUCK_PARTS)
		messages_pool_stuck(&m->pool, now, m->o.timeout_ns / STUCK_PARTS);
	if (m->posted && now - m->came_ns > m->o.timeout_ns)
		return receive_stalled(m);
	if (m->sending && now - m->sent_ns > m->o.timeout_ns) {
		uint64_t number = m->counts.sends_done;

		return message_stalled(m, number, &m->sent[number % NET_COMM_WINDOW],
				       "not taken by the plugin", "");
	}
	return TCPX_OK;
}

tcpx_status messages_move(struct messages *m)
{
	tcpx_status status = guide_read(m);

	if (status == TCPX_OK)
		status = post_receives(m);
	if (status == TCPX_OK)
		status = poll_received(m);
	if (status == TCPX_OK)
		status = poll_sent(m);
	return status == TCPX_OK ? messages_check_time(m) : status;
}

/* Whether an ACK is next in the stream. An ACK overtakes all waiting frames, unless a NACK is among
 * them or recv has returned a part of the first of them. */
static bool ack_next(const struct messages *m)
{
	return m->in_ack || (m->acked && !m->nacks && m->part == PART_HEADER && !m->at);
}

/* Whether recv may return the first waiting frame: it has no message, or its message is done. */
static bool frame_next(const struct messages *m)
{
	const struct waiting *w = &m->waiting[m->first];

	return m->count && (!w->bytes || w->done);
}

uint32_t messages_next(struct messages *m, const uint8_t **out_bytes)
{
	struct waiting *w = waiting_at(m, 0);
	const uint8_t *parts[] = {w->header, waiting_place(m, w), m->trailer};
	const uint32_t bytes[] = {FRAME_HEADER_BYTES, w->bytes, FRAME_TRAILER_BYTES};

	if (ack_next(m)) {
		m->in_ack = true;
		*out_bytes = m->ack + m->at;
		return FRAME_HEADER_BYTES - m->at;
	}
	if (!frame_next(m))
		return 0;
	*out_bytes = parts[m->part] + m->at;
	return bytes[m->part] - m->at;
}

/* Removes the first waiting frame, which recv has returned completely. Its message, if it has one,
 * is consumed if recv has copied it; otherwise the user may take the message from now on. */
static tcpx_status frame_end(struct messages *m)
{
	struct waiting *w = waiting_at(m, 0);
	tcpx_status status = TCPX_OK;

	if (w->bytes && !messages_taken(m)) {
		message_counted(&m->counts.unpacked);
		status = net_comm_consumed(m->o.in, w->number);
		if (status == TCPX_OK)
			message_counted(&m->counts.consumed);
		m->messages--;
	} else if (w->bytes) {
		m->taken[m->takes++ % NET_COMM_WINDOW] = (struct taken){
			.seq = w->seq,
			.number = w->number,
			.whole = {.src = w->slot * m->o.message_bytes, .len = w->bytes}};
	}
	m->nacks -= w->nack;
	m->part = PART_HEADER;
	m->first = (m->first + 1) % WAITING;
	m->count--;
	return status;
}

tcpx_status messages_given(struct messages *m, uint32_t bytes)
{
	struct waiting *w = waiting_at(m, 0);
	struct frame_trailer trailer = {.seq = w->seq, .status = FRAME_VALID};

	m->at += bytes;
	if (m->in_ack) {
		if (m->at < FRAME_HEADER_BYTES)
			return TCPX_OK;
		m->in_ack = m->acked = false;
		m->at = 0;
		return TCPX_OK;
	}
	if (m->at < (m->part == PART_HEADER    ? FRAME_HEADER_BYTES
		     : m->part == PART_PAYLOAD ? w->bytes
					       : FRAME_TRAILER_BYTES))
		return TCPX_OK;
	m->at = 0;
	if (!w->bytes || messages_taken(m) || m->part == PART_TRAILER)
		return frame_end(m);
	if (++m->part == PART_TRAILER)
		wire_trailer_encode(&trailer, m->trailer);
	return TCPX_OK;
}

bool messages_ready(const struct messages *m)
{
	return ack_next(m) || frame_next(m);
}
