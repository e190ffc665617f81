/* SPDX-License-Identifier: Apache-2.0 */
/* Two channels of messages: over a real guide, and comms that do as they are told. */
#ifndef TESTS_UNIT_MESSAGES_RIG_H
#define TESTS_UNIT_MESSAGES_RIG_H

#include <stdbool.h>

#include "unit.h"

#include "base/frame.h"
#include "plugin/messages.h"
#include "net_pair.h"
#include "wire/frame_codec.h"

#define BYTES 4096u /* most of a message */
#define WINDOW 3u
#define QUEUE 32u /* messages that a comm keeps */
#define LONG_NS 60000000000
#define POOL 0x7000u /* where pieces lie, as a GPU knows it */

/* One direction; the sender's end and the receiver's are the same object. */
struct net_comm {
	uint8_t *sent[QUEUE], *to[QUEUE];
	size_t bytes[QUEUE];
	uint64_t nsent, nended, nposted, ndone, nconsumed;
	uint64_t ends, comes; /* of sends, of messages: so many may */
	unsigned put_off;     /* posts that are taken later */
	bool silent;	      /* about lengths */
	bool lies, lost;
};

tcpx_status net_comm_send(struct net_comm *comm, struct net_mr *mr, const void *data, size_t bytes,
			  uint64_t *out_number)
{
	(void)mr;
	if (comm->lost)
		return TCPX_ERR_CHANNEL_LOST;
	if (comm->put_off) {
		comm->put_off--;
		return TCPX_IN_PROGRESS;
	}
	if (comm->nsent - comm->nended == NET_COMM_WINDOW)
		return TCPX_ERR_AGAIN;
	comm->sent[comm->nsent % QUEUE] = malloc(bytes);
	memcpy(comm->sent[comm->nsent % QUEUE], data, bytes);
	comm->bytes[comm->nsent % QUEUE] = bytes;
	*out_number = comm->nsent++;
	return TCPX_OK;
}

tcpx_status net_comm_recv(struct net_comm *comm, struct net_mr *mr, void *data, size_t room,
			  uint64_t *out_number)
{
	(void)mr;
	assert_int_equal(room, BYTES);
	if (comm->put_off) {
		comm->put_off--;
		return TCPX_IN_PROGRESS;
	}
	assert_true(comm->nposted - comm->nconsumed < WINDOW);
	comm->to[comm->nposted % QUEUE] = data;
	*out_number = comm->nposted++;
	return TCPX_OK;
}

static tcpx_status poll_in(struct net_comm *comm, uint64_t *out_number, size_t *out_bytes)
{
	uint64_t i = comm->ndone % QUEUE;

	if (comm->ndone == comm->nposted || comm->ndone == comm->nsent ||
	    comm->ndone == comm->comes)
		return TCPX_IN_PROGRESS;
	memcpy(comm->to[i], comm->sent[i], comm->bytes[i]);
	free(comm->sent[i]);
	*out_bytes = comm->silent ? NET_COMM_UNKNOWN : comm->bytes[i] - comm->lies;
	*out_number = comm->ndone++;
	return TCPX_OK;
}

static struct net_comm *sender; /* what is polled for its sends now */

tcpx_status net_comm_poll(struct net_comm *comm, uint64_t *out_number, size_t *out_bytes)
{
	if (comm->lost)
		return TCPX_ERR_CHANNEL_LOST;
	if (comm != sender)
		return poll_in(comm, out_number, out_bytes);
	if (comm->nended == comm->nsent || comm->nended == comm->ends)
		return TCPX_IN_PROGRESS;
	*out_number = comm->nended++;
	*out_bytes = 0;
	return TCPX_OK;
}

tcpx_status net_comm_consumed(struct net_comm *comm, uint64_t number)
{
	assert_int_equal(number, comm->nconsumed);
	assert_true(number < comm->ndone);
	memset(comm->to[number % QUEUE], 0xa5, BYTES);
	comm->nconsumed++;
	return TCPX_OK;
}

unsigned net_comm_slot(const struct net_comm *comm, uint64_t number)
{
	(void)comm;
	return (unsigned)(number % NCCLNET_QUEUE_DEPTH);
}

/* a sends over comm[0] to b, b over comm[1] to a. */
struct rig {
	struct pair guide;
	struct net_chan *end[2];
	struct net_comm comm[2];
	uint8_t bounce[2][WINDOW * BYTES];
	uint64_t seq[2];
};

/* meta: messages come in pieces, which it tells; or NULL. whole: they are taken from bounce. */
static void rig_open_all(struct rig *rig, int64_t timeout_ns, const struct ncclnet_queue_meta *meta,
			 bool whole)
{
	memset(rig, 0, sizeof(*rig));
	pair_tcp(&rig->guide);
	for (unsigned i = 0; i < 2; i++) {
		struct net_messages_opts opts = {.guide = i ? rig->guide.b : rig->guide.a,
						 .out = &rig->comm[i],
						 .in = &rig->comm[!i],
						 .window = WINDOW,
						 .message_bytes = BYTES,
						 .bounce = meta ? NULL : rig->bounce[i],
						 .whole = whole,
						 .meta = meta,
						 .pool = POOL,
						 .pool_bytes = whole ? WINDOW * BYTES : BYTES,
						 .landing = rig->bounce[i],
						 .timeout_ns = timeout_ns};

		rig->comm[i].ends = rig->comm[i].comes = UINT64_MAX;
		assert_int_equal(net_messages_open(&opts, &rig->end[i]), TCPX_OK);
	}
}

static void rig_open_with(struct rig *rig, int64_t timeout_ns,
			  const struct ncclnet_queue_meta *meta)
{
	rig_open_all(rig, timeout_ns, meta, false);
}

static void rig_open_whole(struct rig *rig, int64_t timeout_ns)
{
	rig_open_all(rig, timeout_ns, NULL, true);
}

static void rig_open(struct rig *rig, int64_t timeout_ns)
{
	rig_open_with(rig, timeout_ns, NULL);
}

static void rig_close(struct rig *rig)
{
	for (unsigned i = 0; i < 2; i++) {
		struct net_comm *comm = &rig->comm[i];

		if (rig->end[i])
			rig->end[i]->ops->close(rig->end[i]);
		for (; comm->ndone < comm->nsent; comm->ndone++)
			free(comm->sent[comm->ndone % QUEUE]);
	}
}

static tcpx_status put(struct rig *rig, unsigned end, const void *bytes, size_t n)
{
	struct iovec iov = {(void *)bytes, n};
	size_t sent = 0;
	tcpx_status status;

	status = rig->end[end]->ops->send(rig->end[end], &iov, 1, &sent);
	if (status == TCPX_OK)
		assert_int_equal(sent, n);
	return status;
}

static void put_frame(struct rig *rig, unsigned end, struct frame frame)
{
	uint8_t header[FRAME_HEADER_BYTES];

	frame.epoch = 1;
	frame.seq = frame.type == FRAME_ACK ? 0 : ++rig->seq[end];
	wire_frame_encode(&frame, header);
	assert_int_equal(put(rig, end, header, sizeof(header)), TCPX_OK);
}

static void announce(struct rig *rig, unsigned end, uint32_t bytes)
{
	put_frame(
		rig, end,
		(struct frame){.type = FRAME_RDATA, .flags = FRAME_F_MSG, .payload_bytes = bytes});
}

static tcpx_status post(struct rig *rig, unsigned end, const void *data, uint32_t bytes)
{
	struct frame frame = {
		.type = FRAME_RDATA, .seq = rig->seq[end] + 1, .payload_bytes = bytes};

	sender = &rig->comm[end];
	return rig->end[end]->ops->message->post(rig->end[end], NULL, data, &frame);
}

/* A look at what moved, and nothing is taken. */
static void turn(struct rig *rig, unsigned end)
{
	size_t got;

	sender = &rig->comm[end];
	assert_int_equal(rig->end[end]->ops->recv(rig->end[end], NULL, 0, &got), TCPX_IN_PROGRESS);
}

static void put_message(struct rig *rig, unsigned end, uint8_t value, uint32_t bytes)
{
	uint8_t data[BYTES];

	memset(data, value, bytes);
	turn(rig, end);
	assert_int_equal(post(rig, end, data, bytes), TCPX_OK);
	announce(rig, end, bytes);
}

static tcpx_status get(struct rig *rig, unsigned end, void *to, size_t room, size_t *out_bytes)
{
	struct iovec iov = {to, room};

	sender = &rig->comm[end];
	return rig->end[end]->ops->recv(rig->end[end], &iov, 1, out_bytes);
}

/* Exactly so many bytes, which are under way. */
static void get_all(struct rig *rig, unsigned end, void *to, size_t bytes)
{
	size_t have = 0, got;

	while (have < bytes) {
		tcpx_status status = get(rig, end, (uint8_t *)to + have, bytes - have, &got);

		if (status == TCPX_OK)
			have += got;
		else
			assert_int_equal(status, TCPX_IN_PROGRESS);
	}
}

static void get_frame(struct rig *rig, unsigned end, uint8_t type, struct frame *out_frame)
{
	uint8_t header[FRAME_HEADER_BYTES];

	get_all(rig, end, header, sizeof(header));
	assert_int_equal(wire_frame_decode(header, out_frame), TCPX_OK);
	assert_int_equal(out_frame->type, type);
}

static void get_message(struct rig *rig, unsigned end, uint8_t value, uint32_t bytes)
{
	uint8_t data[BYTES], want[BYTES], trailer[FRAME_TRAILER_BYTES];
	struct frame_trailer end_of;
	struct frame frame;

	get_frame(rig, end, FRAME_RDATA, &frame);
	assert_int_equal(frame.payload_bytes, bytes);
	get_all(rig, end, data, bytes);
	memset(want, value, bytes);
	assert_memory_equal(data, want, bytes);
	get_all(rig, end, trailer, sizeof(trailer));
	assert_int_equal(wire_trailer_decode(trailer, frame.seq, &end_of), TCPX_OK);
	assert_int_equal(end_of.status, FRAME_VALID);
}

/* The next answer that is not "later". */
static tcpx_status get_end(struct rig *rig, unsigned end)
{
	uint8_t byte;
	size_t got;
	tcpx_status status;

	do
		status = get(rig, end, &byte, 1, &got);
	while (status == TCPX_IN_PROGRESS);
	return status;
}

static int restless(struct rig *rig, unsigned end)
{
	uint32_t events;

	return rig->end[end]->ops->arm(rig->end[end], 1, 0, &events);
}

/* Bytes of the guide have arrived at that end. */
static void await_guide(struct rig *rig, unsigned end)
{
	struct net_chan *guide = end ? rig->guide.b : rig->guide.a;
	struct epoll_event event = {.events = EPOLLIN};
	int ep = epoll_create1(EPOLL_CLOEXEC);

	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, guide->ops->fd(guide), &event), 0);
	assert_int_equal(epoll_wait(ep, &event, 1, -1), 1);
	close(ep);
}

static void expect_counts(struct rig *rig, unsigned end, struct net_message_counts want)
{
	struct net_chan_info info = {{0}};

	rig->end[end]->ops->info(rig->end[end], &info);
	assert_memory_equal(&info.messages, &want, sizeof(want));
}

#endif
