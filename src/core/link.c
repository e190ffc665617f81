/* SPDX-License-Identifier: Apache-2.0 */
/* The link as a whole: how it is initialised, fails and is freed; how channels come up, are lost
 * and exchange fences. */
#include "core/link.h"

#include <string.h>

#include "core/link_priv.h"

/* If a budget is below these values, a CREDIT frame for it is also due as soon as no notification
 * or SEND of the peer waits on this side (core_credit.prompt). */
static const uint64_t prompt_below[FRAME_CREDIT_STAGE] = {
	[FRAME_CREDIT_NOTIFY] = 2ull * TCPX_NOTIFY_MAX,
	[FRAME_CREDIT_EAGER] = 8ull * CORE_SMALL_BYTES,
};

/* Initialises a link whose channels are all down. Zero values of small_bytes, ref_chunk, ref_window
 * and message_bytes are replaced by defaults. */
tcpx_status core_link_init(struct core_link *link, const struct core_config *cfg)
{
	uint32_t i;
	int kind;

	memset(link, 0, sizeof(*link));
	link->cfg = *cfg;
	if (!link->cfg.small_bytes)
		link->cfg.small_bytes = CORE_SMALL_BYTES;
	if (!link->cfg.ref_chunk)
		link->cfg.ref_chunk = CORE_REF_BYTES;
	link->ref_chunk = link->cfg.ref_chunk;
	if (!link->cfg.ref_window)
		link->cfg.ref_window = CORE_REF_WINDOW;
	if (!link->cfg.message_bytes)
		link->cfg.message_bytes = cfg->chunk_bytes;
	link->nchan = cfg->bulk_channels + 1;
	for (i = 0; i < CORE_CHANNELS_MAX; i++) {
		link->chan[i].index = i;
		list_init(&link->chan[i].piggyback.waiting);
	}
	core_sendq_init(&link->sendq);
	list_init(&link->fillq.jobs);
	list_init(&link->fillq.ahead);
	list_init(&link->active);
	core_sendrecv_init(&link->sendrecv);
	list_init(&link->resps);
	core_notify_init(&link->notify, &link->cfg);
	core_cover_init(link);
	for (kind = 0; kind < FRAME_CREDIT_STAGE; kind++)
		core_credit_init(&link->credit[kind], cfg->credit_out[kind], cfg->credit_in[kind],
				 cfg->credit_in[kind] < prompt_below[kind]);
	return TCPX_OK;
}

/* Makes CREDIT, STAGE_REQ and requests for cover due again, with their present values. Those that
 * were sent may have been lost with a channel. */
static void link_readvertise(struct core_link *link)
{
	int kind;

	for (kind = 0; kind < FRAME_CREDIT_STAGE; kind++)
		core_credit_readvertise(&link->credit[kind]);
	link->credit[FRAME_CREDIT_NOTIFY].due |= link->cover.advertised > 0;
	core_stage_in_readvertise(&link->stage_in);
	core_stage_out_repeat(&link->stage_out);
	link->cover.request_due = true;
}

void core_link_refs(struct core_link *link, uint64_t bytes)
{
	if (bytes > CORE_REF_MOST)
		bytes = CORE_REF_MOST;
	if (bytes > link->ref_chunk)
		link->ref_chunk = (uint32_t)bytes;
}

/* Frees the memory of the channel's ring of unacknowledged frames and of its list of refusals. */
static void chan_memory_free(struct core_link *link, struct core_chan *chan)
{
	struct core_inflight *inflight = &chan->inflight;
	struct core_rxseq *seq = &chan->rxseq;
	void *arg = link->cfg.arg;

	if (inflight->chunks)
		link->cfg.ops->free(arg, inflight->chunks, CORE_RING * sizeof(*inflight->chunks));
	if (seq->nacks)
		link->cfg.ops->free(arg, seq->nacks, seq->cap_nacks * sizeof(*seq->nacks));
	inflight->chunks = NULL;
	seq->nacks = NULL;
	seq->nnacks = seq->cap_nacks = seq->unsent = 0;
}

void core_link_fini(struct core_link *link)
{
	const struct core_ops *ops = link->cfg.ops;
	void *arg = link->cfg.arg;
	uint32_t i;

	for (i = 0; i < CORE_CHANNELS_MAX; i++)
		chan_memory_free(link, &link->chan[i]);
	while (link->retransmit_pool) {
		struct core_retransmit *retx = link->retransmit_pool;

		link->retransmit_pool = retx->next;
		ops->free(arg, retx, sizeof(*retx));
	}
	if (link->xfers.count) {
		ops->free(arg, link->xfers.slots, link->xfers.count * sizeof(*link->xfers.slots));
		ops->free(arg, link->xfers.generation,
			  link->xfers.count * sizeof(*link->xfers.generation));
	}
	link->xfers.slots = NULL;
	link->xfers.count = 0;
}

static void ctl_list_free(struct core_link *link, struct list_node *head)
{
	struct list_node *node;

	while ((node = list_pop_front(head)))
		link->cfg.ops->free(link->cfg.arg, LIST_ENTRY(node, struct core_ctl, node),
				    sizeof(struct core_ctl));
}

/* Called when the link has failed. Frees SENDs and notifications that arrived and were not given to
 * the engine, and control frames that were not sent. */
static void link_free_arrived(struct core_link *link)
{
	uint32_t i;

	while (!list_empty(&link->sendrecv.sends))
		core_send_in_free(link,
				  LIST_ENTRY(link->sendrecv.sends.next, struct core_send_in, node));
	core_incoming_fini(&link->notify.incoming);
	for (i = 0; i < link->nchan; i++)
		core_notify_in_free_all(link, &link->chan[i].piggyback.waiting);
	ctl_list_free(link, &link->sendq.ctl);
	ctl_list_free(link, &link->sendq.cancelled);
}

/* Called when the link has failed: empties the channel's ring. */
static void chan_forget_ring(struct core_link *link, struct core_chan *chan)
{
	struct core_inflight *inflight = &chan->inflight;
	uint64_t seq;

	if (!inflight->chunks)
		return;
	for (seq = inflight->acked_seq + 1; seq < inflight->next_seq; seq++) {
		struct core_chunk *chunk = core_inflight_at(inflight, seq);

		if (chunk->ctl)
			link->cfg.ops->free(link->cfg.arg, chunk->ctl, sizeof(*chunk->ctl));
		if (chunk->job)
			chunk->job->inflight--;
		chunk->ctl = NULL;
		chunk->job = NULL;
	}
	inflight->acked_seq = inflight->next_seq - 1;
}

/* Called when the link has failed, and again when its lease ends. Ends all transfers and read
 * responses that can end now. The others end later: when the last reference to their memory is
 * dropped, for example by core_io_drop(), but not before core_link_unlease() if the peer may still
 * read their source. */
static void link_end_requests(struct core_link *link, tcpx_status status)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &link->resps) {
		struct core_resp *resp = LIST_ENTRY(pos, struct core_resp, node);

		if (resp->job.stopped)
			/* stopped earlier: the response ends now, or later if its source is still
			 * in use */
			core_resp_check(link, resp);
		else
			core_resp_stop(link, resp, status);
	}
	LIST_FOREACH_SAFE(pos, tmp, &link->active) {
		struct core_xfer *xfer = LIST_ENTRY(pos, struct core_xfer, node);

		if (xfer->state == CORE_ENDING)
			/* the transfer may end now: on a dead link a strict WRITE does not wait for
			 * acknowledgements */
			core_xfer_check(link, xfer);
		else
			core_xfer_end(link, xfer, status);
	}
}

void core_link_lease(struct core_link *link)
{
	link->leased = true;
}

void core_link_unlease(struct core_link *link)
{
	if (!link->leased)
		return;
	link->leased = false;
	if (link->dead)
		link_end_requests(link, link->dead_status);
}

/* Called when the link has failed: gives up the frame under way in one direction. If `stays`, a
 * call still uses the frame's memory (core_chan_stays). Otherwise no call is under way, even if
 * in_call is still set because an error ended the call. */
static void io_fail(struct core_link *link, struct core_io *io, bool stays)
{
	if (!stays)
		io->in_call = false;
	core_io_abort(link, io);
}

/* Whether a receive call of a stopped channel is still under way (core_chan_stays). Such a call may
 * write into the memory of a notification. */
static bool link_in_receive(const struct core_link *link)
{
	for (uint32_t i = 0; i < link->nchan; i++)
		if (link->chan[i].rx_stays)
			return true;
	return false;
}

void core_chan_stays(struct core_link *link, uint32_t channel, bool tx, bool rx)
{
	link->chan[channel].tx_stays = tx;
	link->chan[channel].rx_stays = rx;
}

void core_chan_left(struct core_link *link, uint32_t channel)
{
	struct core_chan *chan = &link->chan[channel];
	bool received = chan->rx_stays;

	chan->tx_stays = chan->rx_stays = false;
	if (!link->dead)
		return;
	if (received)
		core_rx_lost(link, chan);
	io_fail(link, &chan->tx, false);
	io_fail(link, &chan->rx, false);
	if (received && !link_in_receive(link))
		link_free_arrived(link);
}

void core_link_fail(struct core_link *link, tcpx_status status)
{
	uint32_t i;

	if (link->dead)
		return;
	link->dead = true;
	link->dead_status = status;
	for (i = 0; i < link->nchan; i++) {
		struct core_chan *chan = &link->chan[i];

		if (!chan->rx_stays)
			core_rx_lost(link, chan);
		io_fail(link, &chan->tx, chan->tx_stays);
		io_fail(link, &chan->rx, chan->rx_stays);
		chan->state = CORE_CHAN_DOWN;
		chan_forget_ring(link, chan);
		chan_memory_free(link, chan);
	}
	link_end_requests(link, status);
	while (!list_empty(&link->notify.notes))
		core_note_drop(link, LIST_ENTRY(link->notify.notes.next, struct core_note, node));
	if (!link_in_receive(link))
		link_free_arrived(link);
	core_cover_end(link);
	link->cfg.ops->stage_give(link->cfg.arg, core_stage_in_close(&link->stage_in));
}

struct core_xfer *core_xfer_after(const struct core_link *link, const struct core_xfer *xfer)
{
	struct list_node *next = xfer ? xfer->node.next : link->active.next;

	return next == &link->active ? NULL : LIST_ENTRY(next, struct core_xfer, node);
}

struct core_resp *core_resp_after(const struct core_link *link, const struct core_resp *resp)
{
	struct list_node *next = resp ? resp->node.next : link->resps.next;

	return next == &link->resps ? NULL : LIST_ENTRY(next, struct core_resp, node);
}

uint32_t core_chan_epoch(const struct core_link *link, uint32_t channel)
{
	return link->chan[channel].epoch;
}

uint32_t core_link_channels_up(const struct core_link *link)
{
	uint32_t i, up = 0;

	for (i = 0; i < link->nchan; i++)
		up += link->chan[i].state == CORE_CHAN_UP;
	return up;
}

uint32_t core_link_messages_up(const struct core_link *link)
{
	uint32_t i, up = 0;

	for (i = core_stream_channels(link) + 1; i < link->nchan; i++)
		up += link->chan[i].state == CORE_CHAN_UP;
	return up;
}

void core_link_strand(struct core_link *link, tcpx_status status)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &link->resps) {
		struct core_resp *resp = LIST_ENTRY(pos, struct core_resp, node);

		if (resp->job.path == CORE_PATH_MESSAGE)
			core_resp_stop(link, resp, TCPX_ERR_REMOTE);
	}
	LIST_FOREACH_SAFE(pos, tmp, &link->active) {
		struct core_xfer *xfer = LIST_ENTRY(pos, struct core_xfer, node);

		if (xfer->job.path == CORE_PATH_MESSAGE)
			core_xfer_cancel(link, xfer, status);
	}
}

tcpx_status core_chan_up(struct core_link *link, uint32_t channel, uint32_t epoch)
{
	struct core_chan *chan;

	if (link->dead)
		return link->dead_status;
	if (channel >= link->nchan)
		return TCPX_ERR_PROTOCOL;
	chan = &link->chan[channel];
	if (chan->state != CORE_CHAN_DOWN || epoch <= chan->epoch)
		return TCPX_ERR_STALE;
	if (!chan->inflight.chunks)
		chan->inflight.chunks = link->cfg.ops->alloc(
			link->cfg.arg, CORE_RING * sizeof(*chan->inflight.chunks));
	if (!chan->inflight.chunks)
		return TCPX_ERR_NO_MEMORY;
	chan->state = CORE_CHAN_UP;
	chan->epoch = epoch;
	core_inflight_open(&chan->inflight);
	core_rxseq_open(&chan->rxseq);
	chan->piggyback.write_seq = chan->piggyback.write_xfer = 0;
	chan->fence.sent = chan->fence.got = false;
	memset(&chan->tx, 0, sizeof(chan->tx));
	memset(&chan->rx, 0, sizeof(chan->rx));
	chan->idle = true;
	core_kick(link, chan);
	return TCPX_OK;
}

/* Called when a fence was sent or has arrived. Once both fences are exchanged, queues the chunks
 * that the peer did not apply, so that other channels send them, and lets the engine dial the
 * channel again. */
static void fence_through(struct core_link *link, struct core_chan *chan)
{
	if (chan->state != CORE_CHAN_FENCING || !chan->fence.got || !chan->fence.sent)
		return;
	chan->state = CORE_CHAN_DOWN;
	core_chunks_ack(link, chan, chan->fence.applied);
	if (!core_chunks_requeue(link, chan))
		return;
	link_readvertise(link);
	core_kick_all(link);
	link->cfg.ops->channel_free(link->cfg.arg, chan->index);
}

static void fence_send(struct core_link *link, struct core_chan *chan)
{
	link->cfg.ops->fence(link->cfg.arg, chan->index, chan->epoch, chan->rxseq.applied,
			     chan->rxseq.nacks, chan->rxseq.nnacks);
	chan->fence.sent = true;
}

/* Sends the fence of a lost channel, if it was not sent yet and no chunk of the channel is still
 * being copied to its destination. */
static void fence_try(struct core_link *link, struct core_chan *chan)
{
	if (chan->state != CORE_CHAN_FENCING || chan->commits || chan->fence.sent)
		return;
	fence_send(link, chan);
	fence_through(link, chan);
}

void core_chan_lost(struct core_link *link, uint32_t channel)
{
	struct core_chan *chan = &link->chan[channel];

	if (link->dead || chan->state != CORE_CHAN_UP)
		return;
	chan->state = CORE_CHAN_FENCING;
	core_rx_lost(link, chan);
	chan->tx.in_call = chan->rx.in_call = false;
	core_io_release(link, &chan->tx);
	core_io_release(link, &chan->rx);
	chan->tx.busy = chan->rx.busy = false;
	if (core_carries_messages(link, chan->index))
		core_chunks_release_messages(link, chan);
	fence_try(link, chan);
	link_readvertise(link);
	core_kick_all(link);
}

/* Called when the copy of a chunk has ended. Defined here, and not in link_rx.c, because the fence
 * of a lost channel may have waited for this copy to end. */
void core_rx_committed(struct core_link *link, uint32_t channel, uint32_t epoch, uint64_t seq,
		       uint64_t xfer_id, uint64_t bytes, uint64_t staged, tcpx_status status)
{
	struct core_chan *chan = &link->chan[channel];
	struct core_xfer *xfer = core_xfer_find(link, xfer_id);
	uint64_t next;

	if (staged)
		core_stage_free(link, staged);
	if (xfer) {
		xfer->refs--;
		if (xfer->state == CORE_ACTIVE && status == TCPX_OK)
			xfer->applied += bytes;
		else if (xfer->state == CORE_ACTIVE)
			core_xfer_end(link, xfer, status);
	}
	if (!link->dead && chan->epoch == epoch) {
		chan->commits--;
		link->count.rx_bytes += bytes;
		core_rx_finished(link, chan, seq, xfer ? TCPX_OK : status);
		next = core_piggyback_committed(link, chan, seq, status);
		if (next)
			core_rx_finished(link, chan, next, TCPX_OK);
		fence_try(link, chan);
	}
	if (xfer)
		core_xfer_check(link, xfer);
}

tcpx_status core_chan_fence(struct core_link *link, uint32_t channel, uint32_t epoch,
			    uint64_t applied, const struct core_nack *nacks, uint32_t count)
{
	struct core_chan *chan;
	uint32_t i;

	if (link->dead)
		return link->dead_status;
	if (channel >= link->nchan)
		return TCPX_ERR_PROTOCOL;
	chan = &link->chan[channel];
	if (epoch < chan->epoch || (epoch == chan->epoch && chan->state == CORE_CHAN_DOWN))
		/* the fence is for an earlier connection, or was handled before */
		return TCPX_OK;
	if (epoch > chan->epoch) {
		/* The channel came up at the peer, and was lost there before it came up here. */
		if (chan->state != CORE_CHAN_DOWN || applied)
			return TCPX_ERR_PROTOCOL;
		chan->epoch = epoch;
		core_rxseq_open(&chan->rxseq);
		fence_send(link, chan);
		link->cfg.ops->channel_free(link->cfg.arg, chan->index);
		return TCPX_OK;
	}
	if (chan->fence.got)
		return TCPX_OK;
	if (applied < chan->inflight.acked_seq || applied >= chan->inflight.next_seq)
		return TCPX_ERR_PROTOCOL;
	for (i = 0; i < count; i++)
		core_chunk_refuse(link, chan, nacks[i].seq, nacks[i].status);
	chan->fence.got = true;
	chan->fence.applied = applied;
	if (chan->state == CORE_CHAN_UP)
		link->cfg.ops->close_channel(link->cfg.arg, channel);
	else
		fence_through(link, chan);
	return TCPX_OK;
}

void core_link_ask(struct core_link *link)
{
	uint32_t i;

	link->notify.flush = !list_empty(&link->notify.notes);
	for (i = 0; i < link->nchan && !link->dead; i++) {
		link->chan[i].inflight.ack_needed = true;
		core_kick(link, &link->chan[i]);
	}
}

void core_link_refence(struct core_link *link)
{
	uint32_t i;

	for (i = 0; i < link->nchan && !link->dead; i++)
		if (link->chan[i].fence.sent)
			fence_send(link, &link->chan[i]);
}
