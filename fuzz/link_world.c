/* SPDX-License-Identifier: Apache-2.0 */
/* Our end of a link for the stateful target: operations of the core, requests, the end. */
#include "link_world.h"

enum {
	POST_STAGED = 1,
	POST_REMOTE_STAGED = 2,
	POST_STRICT = 4,
	POST_NOTIFY = 8,
	POST_TIMED = 16,
	POST_BY_REF = 1 << 14, /* behind the notification's size */
	POST_BY_PRIO = 1 << 15,
};

static void op_ended(void *arg, struct core_xfer *x)
{
	struct world_xfer *xfer = LIST_ENTRY(x, struct world_xfer, x);

	(void)arg;
	FUZZ_CHECK(xfer->active); /* once per post */
	FUZZ_CHECK(x->state == CORE_FINAL && x->status != TCPX_IN_PROGRESS);
	FUZZ_CHECK(x->refs == 0); /* nobody reads or writes its memory */
	xfer->active = false;
}

static void op_resp_ended(void *arg, struct core_resp *resp)
{
	struct world *w = arg;

	FUZZ_CHECK(resp->refs == 0);
	w->resps--;
	free(resp->segs.seg);
	free(resp);
}

static void op_kick(void *arg, uint32_t channel)
{
	(void)arg;
	FUZZ_CHECK(channel < WORLD_CHANNELS);
}

static void op_close_channel(void *arg, uint32_t channel)
{
	((struct world *)arg)->must_close[channel] = true;
}

static void op_fence(void *arg, uint32_t channel, uint32_t epoch, uint64_t applied,
		     const struct core_nack *nacks, uint32_t count)
{
	(void)arg;
	(void)epoch;
	(void)applied;
	FUZZ_CHECK(channel < WORLD_CHANNELS);
	for (uint32_t i = 0; i < count; i++)
		FUZZ_CHECK(nacks[i].status < 0);
}

static void op_channel_free(void *arg, uint32_t channel)
{
	(void)arg;
	FUZZ_CHECK(channel < WORLD_CHANNELS);
}

static void op_free(void *arg, void *ptr, size_t bytes)
{
	struct world *w = arg;
	size_t *head = (size_t *)ptr - 2;

	FUZZ_CHECK(head[0] == bytes && w->memory >= bytes);
	w->memory -= bytes;
	free(head);
}

static void *op_alloc(void *arg, size_t bytes)
{
	struct world *w = arg;
	size_t *head;

	if (w->no_memory) {
		w->no_memory = false;
		return NULL;
	}
	head = malloc(bytes + 2 * sizeof(size_t));
	FUZZ_CHECK(head);
	head[0] = bytes;
	w->memory += bytes;
	return head + 2;
}

static void *op_note_alloc(void *arg, size_t bytes, size_t there)
{
	FUZZ_CHECK(there <= bytes);
	return op_alloc(arg, bytes);
}

static void op_note_grew(void *arg, size_t more)
{
	(void)arg;
	FUZZ_CHECK(more);
}

static void op_note_free(void *arg, void *ptr, size_t there)
{
	FUZZ_CHECK(there <= ((size_t *)ptr)[-2]);
	op_free(arg, ptr, ((size_t *)ptr)[-2]);
}

/* All that is wanted, or the least, in turns. */
static uint64_t op_note_take(void *arg, uint64_t want, uint64_t least)
{
	struct world *w = arg;
	uint64_t got = w->takes++ % 2 ? least : want;

	FUZZ_CHECK(least && least <= want && want <= WORLD_CREDIT - WORLD_COVER - w->taken);
	w->taken += got;
	return got;
}

static void op_note_give(void *arg, uint64_t bytes)
{
	struct world *w = arg;

	FUZZ_CHECK(bytes <= w->taken + (w->link.dead ? WORLD_COVER : 0));
	w->taken -= bytes < w->taken ? bytes : w->taken;
}

static void op_notify(void *arg, struct core_notify_in *msg)
{
	struct world *w = arg;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < msg->bytes; i += 64)
		sum += msg->data[i];
	(void)sum;
	w->notes++;
	w->unread += msg->bytes;
	op_note_free(w, msg, msg->there);
}

static void op_notifying(void *arg, struct core_xfer *xfer)
{
	(void)arg;
	(void)xfer;
}

static void op_note_ended(void *arg)
{
	(void)arg;
}

static tcpx_status op_deliver(void *arg, struct core_xfer *x, const void *data, uint64_t bytes)
{
	struct world *w = arg;
	struct world_xfer *xfer = LIST_ENTRY(x, struct world_xfer, x);
	struct world_later *later;
	uint8_t first;

	FUZZ_CHECK(xfer->active && bytes && bytes <= x->segs->total);
	memcpy(&first, (const uint8_t *)data + bytes - 1, 1);
	later = x->local_staged ? world_later_new(w) : NULL;
	if (!later)
		return TCPX_OK;
	*later = (struct world_later){.used = true, .deliver = true, .recv = x};
	return TCPX_IN_PROGRESS;
}

static void op_fill_drop(void *arg, struct core_job *job)
{
	(void)arg;
	FUZZ_CHECK(job->fills);
}

static uint64_t op_stage_take(void *arg, uint64_t want, uint64_t least)
{
	struct world *w = arg;
	uint64_t got = want < w->pool ? want : w->pool;

	if (got < least)
		got = 0;
	w->pool -= got;
	return got;
}

static uint64_t op_stage_ahead(void *arg, uint64_t want)
{
	(void)arg;
	return want <= WORLD_POOL / 8 ? want : 0;
}

static void op_stage_give(void *arg, uint64_t bytes)
{
	struct world *w = arg;

	FUZZ_CHECK(bytes <= WORLD_POOL - w->pool);
	w->pool += bytes;
}

static void op_fail(void *arg, tcpx_status status)
{
	struct world *w = arg;

	if (!w->failed)
		w->why = status;
	w->failed = true;
}

static const struct core_ops ops = {
	.ended = op_ended,
	.resp_ended = op_resp_ended,
	.kick = op_kick,
	.close_channel = op_close_channel,
	.fence = op_fence,
	.channel_free = op_channel_free,
	.notify = op_notify,
	.note_ended = op_note_ended,
	.notifying = op_notifying,
	.deliver = op_deliver,
	.stage_take = op_stage_take,
	.stage_ahead = op_stage_ahead,
	.stage_give = op_stage_give,
	.fill = op_note_ended,
	.fill_drop = op_fill_drop,
	.alloc = op_alloc,
	.free = op_free,
	.note_alloc = op_note_alloc,
	.note_grew = op_note_grew,
	.note_free = op_note_free,
	.note_take = op_note_take,
	.note_give = op_note_give,
	.fail = op_fail,
};

void world_open(struct world *w)
{
	struct core_config cfg = {
		.chunk_bytes = 4096,
		.bulk_channels = WORLD_CHANNELS - 1,
		.credit_out = {WORLD_CREDIT, WORLD_CREDIT, WORLD_READS, 0},
		.credit_in = {WORLD_CREDIT, WORLD_CREDIT, WORLD_READS, 0},
		.cover_out = WORLD_COVER,
		.cover_in = WORLD_COVER,
		.ops = &ops,
		.arg = w,
	};

	memset(w, 0, sizeof(*w));
	w->pool = WORLD_POOL;
	FUZZ_CHECK(core_link_init(&w->link, &cfg) == TCPX_OK);
	for (uint32_t i = 0; i < WORLD_CHANNELS; i++)
		FUZZ_CHECK(core_chan_up(&w->link, i, ++w->epoch[i]) == TCPX_OK);
}

void world_lost(struct world *w, uint32_t channel)
{
	w->rx[channel].busy = w->tx[channel].busy = false;
	w->must_close[channel] = false;
	core_chan_lost(&w->link, channel);
}

void world_fail(struct world *w, tcpx_status status)
{
	FUZZ_CHECK(status < 0);
	core_link_fail(&w->link, status);
}

void world_settle(struct world *w)
{
	struct core_fill fill;

	while (core_fill_next(&w->link, &fill)) {
		core_fill_begin(&w->link, &fill);
		core_fill_end(&w->link, fill.job, fill.linear + fill.bytes, TCPX_OK);
	}
	for (uint32_t i = 0; i < WORLD_CHANNELS; i++)
		if (w->must_close[i])
			world_lost(w, i);
	if (w->failed && !w->link.dead)
		world_fail(w, w->why);
	if (w->link.dead)
		for (uint32_t i = 0; i < WORLD_CHANNELS; i++)
			w->rx[i].busy = w->tx[i].busy = false;
}

struct world_later *world_later_new(struct world *w)
{
	for (uint32_t i = 0; i < WORLD_LATER; i++)
		if (!w->later[i].used)
			return &w->later[i];
	return NULL;
}

void world_later_end(struct world *w, uint32_t index, tcpx_status status)
{
	struct world_later later = w->later[index];

	if (!later.used)
		return;
	w->later[index].used = false;
	if (later.deliver)
		core_recv_applied(&w->link, later.recv, status);
	else
		core_rx_committed(&w->link, later.channel, later.epoch, later.seq, later.id,
				  later.bytes, later.staged, status);
	world_settle(w);
}

void world_push(struct world *w, const struct frame *frame)
{
	struct core_resp *resp = calloc(1, sizeof(*resp));
	struct core_seg *seg = calloc(3, sizeof(*seg));

	FUZZ_CHECK(resp && seg);
	seg[1].linear = frame->offset / 2 ? frame->offset / 2 : frame->offset;
	seg[2].linear = frame->offset;
	resp->segs = (struct core_segs){
		.total = frame->offset, .nseg = seg[1].linear < frame->offset ? 2 : 1, .seg = seg};
	resp->job.peer_xfer = frame->xfer;
	resp->job.linear_base = frame->linear;
	resp->job.path = frame->flags & FRAME_F_REF ? CORE_PATH_REFERENCE : CORE_PATH_STREAM;
	resp->job.by_prio =
		frame->key == FRAME_READ_BY_PRIO && resp->job.path != CORE_PATH_REFERENCE;
	w->resps++;
	core_resp_start(&w->link, resp);
}

void world_post(struct world *w, uint32_t slot, enum tcpx_op op, uint32_t total, uint32_t flags)
{
	static const uint8_t note[512];
	struct world_xfer *xfer = w->xfers[slot];
	tcpx_status status;

	if (xfer && xfer->active)
		return;
	if (!xfer)
		xfer = w->xfers[slot] = calloc(1, sizeof(*xfer));
	FUZZ_CHECK(xfer);
	xfer->seg[1].linear = total / 3 ? total / 3 : total;
	xfer->seg[2].linear = total;
	xfer->segs = (struct core_segs){.total = total,
					.nseg = !total			      ? 0
						: xfer->seg[1].linear < total ? 2
									      : 1,
					.seg = xfer->seg,
					.local = xfer->local,
					.remote = xfer->remote,
					.nlocal = 1,
					.nremote = 1};
	xfer->x.op = op;
	xfer->x.segs = op == TCPX_OP_NOTIFY ? NULL : &xfer->segs;
	xfer->x.notify = note;
	xfer->x.notify_bytes = flags >> 5 & 0x1ff;
	xfer->x.has_notify = (op == TCPX_OP_WRITE || op == TCPX_OP_READ) && flags & POST_NOTIFY;
	xfer->x.strict = flags & POST_STRICT;
	xfer->x.remote_staged = flags & POST_REMOTE_STAGED;
	xfer->x.local_staged = flags & POST_STAGED;
	xfer->x.path = flags & POST_BY_REF && total ? CORE_PATH_REFERENCE : CORE_PATH_STREAM;
	if (xfer->x.path == CORE_PATH_REFERENCE && (op == TCPX_OP_WRITE || op == TCPX_OP_READ))
		xfer->x.remote_staged = xfer->x.local_staged = false;
	xfer->x.by_prio = flags & POST_BY_PRIO && xfer->x.path != CORE_PATH_REFERENCE &&
			  !xfer->x.remote_staged && !xfer->x.local_staged;
	xfer->x.deadline_ns = flags & POST_TIMED ? 100 : 0;
	xfer->active = true;
	status = core_xfer_post(&w->link, &xfer->x);
	if (status != TCPX_OK) {
		FUZZ_CHECK(xfer->active && status < 0);
		xfer->active = false;
	}
	world_settle(w);
}

void world_release(struct world *w, uint32_t slot)
{
	struct world_xfer *xfer = w->xfers[slot];

	if (!xfer || xfer->active)
		return;
	for (uint32_t i = 0; i < WORLD_LATER; i++)
		FUZZ_CHECK(!w->later[i].used || w->later[i].recv != &xfer->x);
	free(xfer);
	w->xfers[slot] = NULL;
}

void world_close(struct world *w)
{
	world_fail(w, TCPX_ERR_DISCONNECTED);
	world_settle(w);
	for (uint32_t i = 0; i < WORLD_LATER; i++)
		world_later_end(w, i, i % 2 ? TCPX_OK : TCPX_ERR_REMOTE);
	for (uint32_t i = 0; i < WORLD_XFERS; i++) {
		FUZZ_CHECK(!w->xfers[i] || !w->xfers[i]->active);
		world_release(w, i);
	}
	core_link_fini(&w->link);
	FUZZ_CHECK(w->resps == 0);
	FUZZ_CHECK(w->memory == 0);
	FUZZ_CHECK(w->pool == WORLD_POOL);
}
