/* SPDX-License-Identifier: Apache-2.0 */
/* A core alone: a priority channel and some bulk channels that are up, effects that count, frames
 * put in by hand. */
#ifndef UNIT_CORE_RIG_H
#define UNIT_CORE_RIG_H

#include <stdlib.h>

#include "core/link.h"
#include "unit.h"

#ifndef RIG_BULK
#define RIG_BULK 2 /* bulk channels */
#endif

struct world {
	struct core_link link;
	tcpx_status failed;
	uint64_t memory;
	uint32_t notes, kicks[1 + RIG_BULK]; /* kicks: of each channel */
	uint32_t resps;			     /* read responses that the test has started */
	uint32_t notifying;   /* transfers of which only the notification is missing */
	uint64_t published;   /* bytes of the last one */
	uint64_t room, taken; /* of the account; what the link has of it */
	uint64_t arrived;     /* charged of notifications */
};

static void on_ended(void *arg, struct core_xfer *xfer)
{
	(void)arg;
	assert_int_equal(xfer->state, CORE_FINAL);
}

static void on_notifying(void *arg, struct core_xfer *xfer)
{
	struct world *w = arg;

	assert_int_equal(xfer->state, CORE_NOTIFYING);
	w->notifying++;
}

static void on_resp_ended(void *arg, struct core_resp *resp)
{
	struct world *w = arg;

	(void)resp;
	assert_true(w->resps > 0);
	w->resps--;
}

static void on_channel(void *arg, uint32_t channel)
{
	(void)arg;
	assert_in_range(channel, 0, RIG_BULK);
}

static void on_kick(void *arg, uint32_t channel)
{
	struct world *w = arg;

	on_channel(arg, channel);
	w->kicks[channel]++;
}

static void on_fence(void *arg, uint32_t channel, uint32_t epoch, uint64_t applied,
		     const struct core_nack *nacks, uint32_t count)
{
	(void)epoch;
	(void)applied;
	(void)nacks;
	(void)count;
	on_channel(arg, channel);
}

static void *on_alloc(void *arg, size_t bytes)
{
	struct world *w = arg;

	w->memory += bytes;
	return malloc(bytes);
}

static void on_free(void *arg, void *ptr, size_t bytes)
{
	struct world *w = arg;

	w->memory -= bytes;
	free(ptr);
}

/* What is asked for lies in front. */
static void *on_note_alloc(void *arg, size_t bytes, size_t there)
{
	struct world *w = arg;
	size_t *head = on_alloc(arg, bytes + 16);

	head[0] = bytes + 16;
	w->arrived += there;
	return head + 2;
}

static void on_note_grew(void *arg, size_t more)
{
	((struct world *)arg)->arrived += more;
}

static void on_note_free(void *arg, void *ptr, size_t there)
{
	size_t *head = (size_t *)ptr - 2;

	((struct world *)arg)->arrived -= there;
	on_free(arg, head, head[0]);
}

static uint64_t on_note_take(void *arg, uint64_t want, uint64_t least)
{
	struct world *w = arg;
	uint64_t got = want <= w->room ? want : least <= w->room ? least : 0;

	w->room -= got;
	w->taken += got;
	return got;
}

static void on_note_give(void *arg, uint64_t bytes)
{
	struct world *w = arg;

	if (bytes > w->taken)
		bytes = w->taken; /* the end of the link: the rest is its share */
	w->room += bytes;
	w->taken -= bytes;
}

static void on_notify(void *arg, struct core_notify_in *msg)
{
	struct world *w = arg;

	w->notes++;
	w->published = msg->bytes;
	on_note_free(w, msg, msg->there);
}

static void on_note_ended(void *arg)
{
	(void)arg;
}

static tcpx_status on_deliver(void *arg, struct core_xfer *xfer, const void *data, uint64_t bytes)
{
	(void)arg;
	(void)xfer;
	(void)data;
	(void)bytes;
	return TCPX_OK;
}

static uint64_t on_stage_take(void *arg, uint64_t want, uint64_t least)
{
	(void)arg;
	(void)least;
	return want;
}

static uint64_t on_stage_ahead(void *arg, uint64_t want)
{
	(void)arg;
	return want;
}

static void on_stage_give(void *arg, uint64_t bytes)
{
	(void)arg;
	(void)bytes;
}

static void on_fail(void *arg, tcpx_status status)
{
	struct world *w = arg;

	if (w->failed == TCPX_OK)
		w->failed = status;
}

static void on_fill_drop(void *arg, struct core_job *job)
{
	(void)arg;
	(void)job;
}

static const struct core_ops ops = {
	.ended = on_ended,
	.notifying = on_notifying,
	.resp_ended = on_resp_ended,
	.kick = on_kick,
	.close_channel = on_channel,
	.fence = on_fence,
	.channel_free = on_channel,
	.notify = on_notify,
	.note_ended = on_note_ended,
	.deliver = on_deliver,
	.stage_take = on_stage_take,
	.stage_ahead = on_stage_ahead,
	.stage_give = on_stage_give,
	.fill = on_note_ended,
	.fill_drop = on_fill_drop,
	.alloc = on_alloc,
	.free = on_free,
	.note_alloc = on_note_alloc,
	.note_grew = on_note_grew,
	.note_free = on_note_free,
	.note_take = on_note_take,
	.note_give = on_note_give,
	.fail = on_fail,
};

/* Returns a list of one piece of `bytes` bytes. It is valid until the next call. */
static inline const struct core_segs *one_piece(uint64_t bytes)
{
	static const uint64_t key = 1;
	static struct core_seg seg[2];
	static struct core_segs segs = {
		.nseg = 1, .seg = seg, .remote = &key, .nlocal = 1, .nremote = 1};

	seg[1].linear = segs.total = bytes;
	return &segs;
}

static struct world *world_open(void)
{
	static struct world world;
	struct core_config cfg = {
		.chunk_bytes = 4096,
		.bulk_channels = RIG_BULK,
		.secret = "no peer knows it",
		.credit_out = {1 << 20, 1 << 20, 4, 0},
		.credit_in = {1 << 20, 1 << 20, 4, 0},
		.ops = &ops,
		.arg = &world,
	};

	memset(&world, 0, sizeof(world));
	assert_int_equal(core_link_init(&world.link, &cfg), TCPX_OK);
	for (uint32_t i = 0; i <= RIG_BULK; i++)
		assert_int_equal(core_chan_up(&world.link, i, 1), TCPX_OK);
	return &world;
}

static void world_close(struct world *w)
{
	core_link_fail(&w->link, TCPX_ERR_DISCONNECTED);
	core_link_fini(&w->link);
	assert_int_equal(w->memory, 0);
}

static tcpx_status begin(struct world *w, uint32_t channel, struct frame frame)
{
	struct core_rx rx;

	frame.epoch = 1;
	frame.seq = w->link.chan[channel].rxseq.begun + 1;
	return core_rx_begin(&w->link, channel, &frame, &rx);
}

static inline tcpx_status receive(struct world *w, uint32_t channel, struct frame frame,
				  tcpx_status verdict)
{
	tcpx_status status = begin(w, channel, frame);

	if (status != TCPX_OK)
		return status;
	return core_rx_end(&w->link, channel, true, verdict, "");
}

#endif
