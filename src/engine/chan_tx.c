/* SPDX-License-Identifier: Apache-2.0 */
/* The sending half of a channel: frames from the core become bytes of the transport. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "engine/comms.h"
#include "engine/engine.h"
#include "engine/hold.h"
#include "engine/prefill.h"
#include "engine/share.h"
#include "engine/stage.h"
#include "engine/tx_table.h"
#include "engine/vanish.h"
#include "engine/warm.h"
#include "wire/frame_codec.h"
#include "wire/table.h"

#define BATCH_BYTES (32u << 10) /* small frames gathered for one call */

/* What an aborted chunk is finished with. */
static const uint8_t zeros[64u << 10];

static void *local_addr(const struct core_prog *prog, const struct core_seg *seg, uint64_t off)
{
	const struct mem_region *region = prog->local[seg->local];

	return region->base + seg->local_off + off;
}

/* The local side of bytes bytes from at on, as iovecs. */
static uint32_t map_local(const struct core_prog *prog, struct core_cursor at, uint64_t bytes,
			  struct iovec *iov)
{
	struct core_piece piece;
	uint32_t n = 0;

	while (core_piece_next(prog, &at, &bytes, &piece)) {
		iov[n].iov_base = local_addr(prog, piece.seg, piece.off);
		iov[n++].iov_len = piece.length;
	}
	return n;
}

/* A chunk whose payload the peer fetches: nothing but a header and its tables goes out. */
static bool by_reference(const struct frame *frame)
{
	return frame->flags & FRAME_F_REF && frame->payload_bytes;
}

static void put_trailer(const struct frame *frame, bool valid, uint8_t *out)
{
	struct frame_trailer trailer = {.seq = frame->seq,
					.status = valid ? FRAME_VALID : FRAME_ABORTED};

	wire_trailer_encode(&trailer, out);
}

/* Header and table behind what the buffer holds already. */
static void put_header(struct chan_tx *tx)
{
	struct frame *frame = &tx->frame.frame;
	uint8_t *out = tx->buf + tx->end;

	if (tx->frame.table)
		frame->table_bytes = tx_table_encode(&tx->frame, out + FRAME_HEADER_BYTES);
	if (by_reference(frame)) {
		frame->follows =
			tx_table_sources(&tx->frame, out + FRAME_HEADER_BYTES + frame->table_bytes);
		frame->table_bytes += frame->follows;
		atomic_fetch_add_explicit(&share_gate, 1, memory_order_release);
	}
	wire_frame_encode(frame, out);
	tx->end += FRAME_HEADER_BYTES + frame->table_bytes;
}

void chan_tx_slices_put(struct engine_chan *chan)
{
	while (chan->tx.nslices)
		prefill_put(chan->tx.slices[--chan->tx.nslices]);
}

/* False: some of it has vanished, and the frame goes as aborted. */
static bool copy_payload(struct engine_chan *chan)
{
	struct chan_tx *tx = &chan->tx;
	const struct core_tx *frame = &tx->frame;
	bool whole = true;

	if (frame->bytes) {
		memcpy(tx->buf + tx->end, frame->bytes, frame->frame.payload_bytes);
	} else {
		uint32_t n = tx->nslices;

		if (!n)
			n = map_local(frame->prog, frame->at, frame->frame.payload_bytes, tx->iov);
		whole = vanish_gather(tx, tx->iov, n, tx->buf + tx->end);
		if (!whole)
			vanish_source(chan, tx->iov, n);
	}
	tx->end += frame->frame.payload_bytes;
	put_trailer(&frame->frame, whole, tx->buf + tx->end);
	tx->end += FRAME_TRAILER_BYTES;
	return whole;
}

/* The payload goes from where it lies. */
static void begin_big(struct engine_chan *chan)
{
	struct chan_tx *tx = &chan->tx;
	struct core_tx *frame = &tx->frame;

	tx->big = true;
	tx->aborted = tx->torn = false;
	tx->at = 0;
	tx->trailer_sent = 0;
	tx->left = frame->frame.payload_bytes;
	if (frame->bytes) {
		tx->iov[0] = (struct iovec){(void *)frame->bytes, frame->frame.payload_bytes};
		tx->niov = 1;
	} else if (tx->nslices) {
		tx->niov = tx->nslices;
	} else if (tx->staged) {
		tx->niov = 0;
		stage_fill(chan);
	} else {
		tx->niov = map_local(frame->prog, frame->at, frame->frame.payload_bytes, tx->iov);
	}
}

/* peer.lock: a staged source is where it was filled, if it was. */
static void claim(struct engine_chan *chan)
{
	struct chan_tx *tx = &chan->tx;
	const struct core_tx *frame = &tx->frame;

	tx->staged = frame->prog && frame->frame.payload_bytes && frame->job->fills;
	if (tx->staged)
		tx->nslices = prefill_claim(frame, tx->slices, tx->iov);
	tx->vanishing = frame->prog && !tx->staged && frame->prog->vanishing;
	tx->held = hold_frame(chan);
}

/* A chunk whose payload is a message of the channel's comm. */
static bool by_message(const struct frame *frame)
{
	return frame->flags & FRAME_F_MSG && frame->payload_bytes;
}

/* The frame under way is a message: its payload is posted, then it may be announced. False: not
 * now, or the channel is lost. */
static bool post_message(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;
	bool valid;

	if (!comms_post(chan, &valid))
		return false;
	put_header(&chan->tx);
	link_lock(&peer->link);
	core_tx_sent(&peer->link.core, chan->index, valid);
	link_unlock_only(&peer->link);
	chan->tx.posting = false;
	return true;
}

/* Gathers frames until the buffer is full, a large one came, or there is nothing more. */
static void gather(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;
	struct chan_tx *tx = &chan->tx;
	bool sent = false, valid = true;

	for (;;) {
		bool room = !tx->big && tx->end < BATCH_BYTES &&
			    ENGINE_TX_BUFFER - tx->end >
				    FRAME_HEADER_BYTES + 2 * CORE_PIECES_MAX * WIRE_TABLE_PIECE_MAX;
		int got = 0;

		link_lock(&peer->link);
		if (sent && !valid)
			core_tx_spoiled(&peer->link.core, chan->index, TCPX_ERR_INVALID);
		if (sent)
			core_tx_sent(&peer->link.core, chan->index, valid);
		if (room)
			got = core_tx_next(&peer->link.core, chan->index, &tx->frame);
		if (got)
			claim(chan);
		link_unlock_only(&peer->link);
		sent = false;
		if (!got)
			return;
		if (by_message(&tx->frame.frame)) {
			tx->posting = true;
			if (!post_message(chan))
				return;
			continue;
		}
		put_header(tx);
		sent = valid = true;
		if (by_reference(&tx->frame.frame))
			continue;
		if (tx->frame.frame.payload_bytes > ENGINE_COPY_BYTES ||
		    (tx->staged && !tx->nslices)) {
			begin_big(chan);
			return;
		}
		if (tx->frame.frame.payload_bytes)
			valid = copy_payload(chan);
		chan_tx_slices_put(chan);
	}
}

/* The pieces of one call; *out_user: the first of the frame's own memory. The buffer before it and
 * the trailer behind it are used again for the next frame. */
static uint32_t build(struct chan_tx *tx, struct iovec *iov, uint32_t *out_user,
		      uint32_t *out_users)
{
	uint32_t n = 0, i;
	uint64_t user = 0, take;

	*out_users = 0;

	if (tx->start < tx->end)
		iov[n++] = (struct iovec){tx->buf + tx->start, tx->end - tx->start};
	*out_user = n;
	if (!tx->big)
		return n;
	if (tx->aborted) {
		while (user < tx->left && user < NET_CALL_BYTES && n < NET_IOV_MAX - 1) {
			take = tx->left - user < sizeof(zeros) ? tx->left - user : sizeof(zeros);
			iov[n++] = (struct iovec){(void *)zeros, take};
			user += take;
		}
	} else {
		for (i = tx->at; i < tx->niov && n < NET_IOV_MAX - 1 && user < NET_CALL_BYTES;
		     i++) {
			take = tx->iov[i].iov_len;
			if (take > NET_CALL_BYTES - user)
				take = NET_CALL_BYTES - user;
			iov[n++] = (struct iovec){tx->iov[i].iov_base, take};
			user += take;
		}
	}
	*out_users = n - *out_user;
	if (user == tx->left) {
		if (!tx->trailer_sent)
			put_trailer(&tx->frame.frame, !tx->aborted, tx->trailer);
		iov[n++] = (struct iovec){tx->trailer + tx->trailer_sent,
					  FRAME_TRAILER_BYTES - tx->trailer_sent};
	}
	return n;
}

/* bytes went out: advances; true when all of the batch is through. */
static bool advance(struct chan_tx *tx, size_t bytes)
{
	uint64_t take = tx->end - tx->start < bytes ? tx->end - tx->start : bytes;

	tx->start += (uint32_t)take;
	bytes -= take;
	if (tx->start == tx->end)
		tx->start = tx->end = 0;
	if (!tx->big)
		return tx->start == tx->end;
	take = tx->left < bytes ? tx->left : bytes;
	tx->left -= take;
	bytes -= take;
	while (take && tx->at < tx->niov && !tx->aborted) {
		struct iovec *iov = &tx->iov[tx->at];

		if (take < iov->iov_len) {
			iov->iov_base = (char *)iov->iov_base + take;
			iov->iov_len -= take;
			break;
		}
		take -= iov->iov_len;
		tx->at++;
	}
	tx->trailer_sent += (uint32_t)bytes;
	return !tx->left && tx->trailer_sent == FRAME_TRAILER_BYTES;
}

/* The trailer is not with the transport yet: it may still say ABORTED. */
static bool trailer_open(const struct chan_tx *tx, const struct net_lent *lent)
{
	return tx->left && lent->ahead <= tx->end - tx->start + tx->left;
}

/*
 * The frame under way is not to be read from the caller's memory any more. What is lent comes back
 * now, or when the peer is through with it. A trailer that is with the transport already stays
 * VALID: the frame is aborted when a piece came back unread, which the peer sees as well, and else
 * the peer has all of it.
 */
static void abort_rest(struct engine_chan *chan, bool torn)
{
	struct chan_tx *tx = &chan->tx;
	struct net_lent lent = {0};

	if (chan->net->ops->lend)
		chan->net->ops->lent(chan->net, 1, &lent);
	tx->torn |= torn || lent.torn;
	tx->aborted |= trailer_open(tx, &lent);
}

/* What the peer still reads of what the last calls lent. */
static void lent_now(struct engine_chan *chan, struct net_lent *out_lent)
{
	if (!chan->net->ops->lend)
		return;
	chan->net->ops->lent(chan->net, 0, out_lent);
	atomic_store(&chan->tx.lent, out_lent->pieces > 0);
}

static tcpx_status call_out(struct engine_chan *chan, size_t *out_bytes)
{
	const struct net_ops *ops = chan->net->ops;
	struct chan_tx *tx = &chan->tx;
	struct iovec iov[NET_IOV_MAX + 2];
	uint32_t user, users;
	int n = (int)build(tx, iov, &user, &users);

	warm_read(iov, (uint32_t)n);
	chan->net->tx_vanishing = tx->big && tx->vanishing && !tx->aborted;
	/* A notification's bytes are the link's, and go with it. */
	if (ops->lend && tx->big && tx->frame.prog && tx->left && !tx->aborted)
		return ops->lend(chan->net, iov, n, out_bytes);
	if (tx->big && tx->held && !tx->aborted)
		return ops->send_held(chan->net, iov, n, (int)user, (int)users, out_bytes);
	return ops->send(chan->net, iov, n, out_bytes);
}

/* One call. OK: go on; IN_PROGRESS: wait for room; else the channel is lost. */
static tcpx_status send_once(struct engine_chan *chan, uint64_t *sum)
{
	struct engine_peer *peer = chan->peer;
	struct chan_tx *tx = &chan->tx;
	size_t bytes = 0;
	tcpx_status status;
	struct net_lent lent = {0};
	bool done, over = false;

	if (tx->big) {
		link_lock(&peer->link);
		over = core_tx_resume(&peer->link.core, chan->index) && tx->left;
		link_unlock_only(&peer->link);
	}
	if (over && (atomic_load(&tx->lent) || (!tx->aborted && !tx->torn)))
		abort_rest(chan, false);
	status = call_out(chan, &bytes);
	done = advance(tx, status == TCPX_OK ? bytes : 0);
	*sum += bytes;
	if (!tx->big)
		return status;
	over = status == TCPX_ERR_INVALID && !tx->aborted && !tx->torn;
	if (over) {
		vanish_source(chan, tx->iov + tx->at, tx->niov - tx->at);
		abort_rest(chan, chan->net->ops->lend != NULL);
	}
	if (!done)
		lent_now(chan, &lent);
	link_lock(&peer->link);
	if (over) {
		/* The caller's memory is gone: this frame ends from scratch, the channel lives. */
		core_tx_torn(&peer->link.core, chan->index);
		core_tx_spoiled(&peer->link.core, chan->index, TCPX_ERR_INVALID);
	}
	if (done) {
		atomic_store(&tx->lent, 0);
		core_tx_sent(&peer->link.core, chan->index, !tx->aborted && !tx->torn);
		tx->big = false;
	} else if (!lent.pieces) {
		core_tx_pause(&peer->link.core,
			      chan->index); /* had it to end, the next call hears it */
	}
	link_unlock_only(&peer->link);
	if (status == TCPX_ERR_INVALID && (over || tx->aborted || tx->torn))
		status = TCPX_OK;
	if (done && tx->stage) {
		stage_close(tx->stage);
		tx->stage = NULL;
	}
	if (done)
		chan_tx_slices_put(chan);
	return status;
}

/* Sends until there is nothing to send, no room, or others of the worker have waited enough: then
 * the worker comes back. tx owner. */
void chan_tx_run(struct engine_chan *chan, uint64_t budget)
{
	struct chan_tx *tx = &chan->tx;
	uint64_t bytes = 0;
	bool awake = false; /* the last wait said that something came */
	tcpx_status status;

	if (atomic_load(&chan->failed) || atomic_load(&tx->filling))
		return;
	for (;;) {
		if (!tx->big && tx->start == tx->end && (!tx->posting || post_message(chan)))
			gather(chan);
		if (atomic_load(&chan->failed))
			return;
		if (atomic_load(&tx->filling) || (!tx->big && tx->start == tx->end))
			return;
		if (bytes >= budget) {
			worker_kick(chan);
			return;
		}
		errno = 0; /* as in chan_rx_run() */
		status = send_once(chan, &bytes);
		if (status == TCPX_IN_PROGRESS) {
			if (!chan_wait_send(chan))
				return;
			if (awake) {
				/* Not for us: the receiver is wanted, maybe on this very thread. */
				worker_again(chan);
				return;
			}
			awake = true;
			continue;
		}
		awake = false;
		if (status != TCPX_OK) {
			chan_fail(chan, status, errno);
			return;
		}
	}
}

/* The channel is stopped. */
void chan_tx_drop(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;
	struct engine_stage *stage = NULL;
	struct net_lent lent = {0};

	if (chan->tx.big && chan->net->ops->lend)
		chan->net->ops->lent(chan->net, 1, &lent);
	if (lent.torn) {
		link_lock(&peer->link);
		core_tx_unread(&peer->link.core, chan->index);
		link_unlock_only(&peer->link);
	}
	if (lent.pieces) {
		lease_start(chan);
		return;
	}
	link_lock(&peer->link);
	stage = chan->tx.stage;
	chan->tx.stage = NULL;
	if (atomic_load(&chan->tx.filling))
		core_tx_take(&peer->link.core, chan->index, &stage->orphan);
	else if (chan->tx.big || chan->tx.posting) /* not sent yet: nobody is inside any more */
		core_tx_pause(&peer->link.core, chan->index);
	link_unlock_only(&peer->link);
	if (stage)
		stage_close(stage);
	chan_tx_slices_put(chan);
	chan->tx.big = chan->tx.posting = false;
}
