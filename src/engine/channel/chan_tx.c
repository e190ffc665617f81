/* SPDX-License-Identifier: Apache-2.0 */
/* The sender of a channel: turns frames of the core into bytes of the transport. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "engine/channel/chan_calls.h"
#include "engine/path/paths.h"
#include "engine/link/tx_table.h"
#include "engine/link/vanish.h"
#include "engine/link/warm.h"
#include "wire/frame_codec.h"
#include "wire/table.h"

#define BATCH_BYTES (32u << 10) /* no frame is added to a batch that has so many bytes */

/* Sent instead of the rest of an aborted chunk. */
static const uint8_t zeros[64u << 10];

static void tx_put_trailer(const struct frame *frame, bool valid, uint8_t *out)
{
	struct frame_trailer trailer = {.seq = frame->seq,
					.status = valid ? FRAME_VALID : FRAME_ABORTED};

	wire_trailer_encode(&trailer, out);
}

/* Copies the payload into the buffer and appends the trailer. If some of the source memory is no
 * longer mapped, the trailer says ABORTED and the function returns false. */
static bool tx_copy_payload(struct engine_chan *chan)
{
	struct chan_tx *tx = &chan->tx;
	const struct frame *frame = &tx->frame.frame;
	bool whole = vanish_gather(tx, tx->iov, tx->niov, tx->buf + tx->end);

	if (!whole)
		vanish_source(chan, tx->iov, tx->niov);
	tx->end += frame->payload_bytes;
	tx_put_trailer(frame, whole, tx->buf + tx->end);
	tx->end += FRAME_TRAILER_BYTES;
	return whole;
}

/* Chooses the path of tx->frame, which the core has just returned, and lets the path take the
 * references that it needs. The caller holds link.lock. */
static void tx_claim(struct engine_chan *chan)
{
	struct chan_tx *tx = &chan->tx;

	tx->niov = tx->nslices = 0;
	tx->vanishing = tx->held = tx->aborted = tx->torn = false;
	tx->path = path_of_source(&tx->frame);
	if (tx->path->claim)
		tx->path->claim(chan);
}

/* Begins a frame whose payload is sent from the memory in tx->iov, not copied into the buffer. */
static void tx_begin_big(struct chan_tx *tx)
{
	tx->big = true;
	tx->at = 0;
	tx->trailer_sent = 0;
	tx->left = tx->frame.frame.payload_bytes;
}

/* Fills an empty buffer with frames of the core, until the buffer is full or the core has no more
 * frames. A payload that is large, or is still being copied into staging (PATH_FILLED), ends the
 * batch: only its header is in the buffer, and the payload is sent from the memory in tx->iov. Also
 * stops at a frame whose payload cannot be loaded yet (tx->posting); the next call tries that frame
 * again. */
static void tx_gather(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;
	struct chan_tx *tx = &chan->tx;
	bool sent = false, valid = true, whole = true;

	for (;;) {
		uint64_t bytes;
		bool room = !tx->big && tx->end < BATCH_BYTES &&
			    ENGINE_TX_BUFFER - tx->end >
				    FRAME_HEADER_BYTES + 2 * CORE_PIECES_MAX * WIRE_TABLE_PIECE_MAX;
		int got = tx->posting;
		enum path_loaded loaded;

		link_lock(&peer->link);
		if (!whole)
			core_tx_spoiled(&peer->link.core, chan->index, TCPX_ERR_INVALID);
		if (sent)
			core_tx_sent(&peer->link.core, chan->index, valid && whole);
		if (!got && room) {
			got = core_tx_next(&peer->link.core, chan->index, &tx->frame);
			if (got)
				tx_claim(chan);
		}
		link_unlock_only(&peer->link);
		if (!got)
			return;
		sent = false;
		valid = whole = true;
		bytes = tx->frame.frame.payload_bytes;
		loaded = tx->path->load(chan, &valid);
		tx->posting = loaded == PATH_LATER;
		if (tx->posting)
			return;
		if (loaded == PATH_FILLED || (loaded == PATH_INLINE && bytes > ENGINE_COPY_BYTES)) {
			tx_begin_big(tx);
			return;
		}
		sent = true;
		if (loaded == PATH_INLINE && bytes)
			whole = tx_copy_payload(chan);
		path_unload(chan);
	}
}

/* Sets iov to the pieces that the next call of the transport sends, and returns their number. The
 * *out_users pieces from index *out_user on are payload memory, which a zero-copy send may
 * reference. The buffer before them and the trailer after them must be copied, because the next
 * frame overwrites both. */
static uint32_t tx_next_pieces(struct chan_tx *tx, struct iovec *iov, uint32_t *out_user,
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
			tx_put_trailer(&tx->frame.frame, !tx->aborted, tx->trailer);
		iov[n++] = (struct iovec){tx->trailer + tx->trailer_sent,
					  FRAME_TRAILER_BYTES - tx->trailer_sent};
	}
	return n;
}

/* Advances by the bytes that the transport took. Returns whether the whole batch is sent, including
 * a large payload and its trailer. */
static bool tx_advance(struct chan_tx *tx, size_t bytes)
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

/* Whether the trailer may still say ABORTED, because the transport does not have it yet. */
static bool tx_trailer_open(const struct chan_tx *tx, const struct net_lent *lent)
{
	return tx->left && lent->ahead <= tx->end - tx->start + tx->left;
}

/*
 * Stops reading the frame from the application's memory. Takes lent pieces back; a piece that the
 * peer is reading at this moment remains lent until the peer has read it. If `torn` is true, the
 * frame counts as torn (its bytes are not valid) in any case.
 *
 * If the transport does not have the trailer yet, the trailer will say ABORTED. Otherwise the
 * trailer already says VALID. Then, if a piece was taken back unread, the frame is torn, and the
 * peer sees this, too. If none was, the peer gets the whole frame.
 */
static void tx_abort_rest(struct engine_chan *chan, bool torn)
{
	struct chan_tx *tx = &chan->tx;
	struct net_lent lent = {0};

	if (chan->net->ops->loan)
		chan->net->ops->loan->lent(chan->net, 1, &lent);
	tx->torn |= torn || lent.torn;
	tx->aborted |= tx_trailer_open(tx, &lent);
}

/* Asks the transport how many pieces are still lent to the peer, and records in tx.lent whether
 * there are any. Does nothing if the transport cannot lend. */
static void tx_update_lent(struct engine_chan *chan, struct net_lent *out_lent)
{
	if (!chan->net->ops->loan)
		return;
	chan->net->ops->loan->lent(chan->net, 0, out_lent);
	atomic_store(&chan->tx.lent, out_lent->pieces > 0);
}

/* Makes one call of the transport for the current batch. Its payload in tx->iov is lent to the
 * peer, sent without a copy (held), or sent with a copy. */
static tcpx_status tx_call(struct engine_chan *chan, size_t *out_bytes)
{
	const struct net_ops *ops = chan->net->ops;
	struct chan_tx *tx = &chan->tx;
	struct iovec iov[NET_IOV_MAX + 2];
	uint32_t user, users;
	int n = (int)tx_next_pieces(tx, iov, &user, &users);

	warm_read(iov, (uint32_t)n);
	chan->net->tx_vanishing = tx->big && tx->vanishing && !tx->aborted;
	/* Only memory of segment lists is lent. The bytes of a notification belong to the link and
	 * are freed with it. */
	if (ops->loan && tx->big && tx->frame.segs && tx->left && !tx->aborted)
		return ops->loan->lend(chan->net, iov, n, out_bytes);
	if (tx->big && tx->held && !tx->aborted)
		return ops->zerocopy->send_held(chan->net, iov, n, (int)user, (int)users,
						out_bytes);
	return ops->send(chan->net, iov, n, out_bytes);
}

/* Makes one send call. During a large payload also tells the core whether the frame is sent. Adds
 * the bytes sent to *sum. Returns OK if sending can go on, or IN_PROGRESS if the transport is full;
 * with any other status the channel is lost. If the source is no longer mapped, aborts the frame
 * and returns OK. */
static tcpx_status tx_send_once(struct engine_chan *chan, uint64_t *sum)
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
		tx_abort_rest(chan, false);
	status = tx_call(chan, &bytes);
	done = tx_advance(tx, status == TCPX_OK ? bytes : 0);
	*sum += bytes;
	if (!tx->big)
		return status;
	over = status == TCPX_ERR_INVALID && !tx->aborted && !tx->torn;
	if (over) {
		vanish_source(chan, tx->iov + tx->at, tx->niov - tx->at);
		tx_abort_rest(chan, chan->net->ops->loan != NULL);
	}
	if (!done)
		tx_update_lent(chan, &lent);
	link_lock(&peer->link);
	if (over) {
		/* The source is no longer mapped: the frame is aborted, but the channel goes on. */
		core_tx_torn(&peer->link.core, chan->index);
		core_tx_spoiled(&peer->link.core, chan->index, TCPX_ERR_INVALID);
	}
	if (done) {
		atomic_store(&tx->lent, 0);
		core_tx_sent(&peer->link.core, chan->index, !tx->aborted && !tx->torn);
		tx->big = false;
	} else if (!lent.pieces) {
		/* The result can be ignored: core_tx_resume() reports an aborted frame before the
		 * next call. */
		core_tx_pause(&peer->link.core, chan->index);
	}
	link_unlock_only(&peer->link);
	if (status == TCPX_ERR_INVALID && (over || tx->aborted || tx->torn))
		status = TCPX_OK;
	if (done)
		path_unload(chan);
	return status;
}

/* Called by the tx owner. Sends until no frame is left, the transport is full, a payload is not
 * loaded yet, or about `budget` bytes are sent. In the last case kicks the worker, which goes on
 * with this channel after its other channels. */
void chan_tx_run(struct engine_chan *chan, uint64_t budget)
{
	struct chan_tx *tx = &chan->tx;
	uint64_t bytes = 0;
	bool awake = false; /* the last chan_wait_send() returned 1: the transport was not full */
	tcpx_status status;

	if (atomic_load(&chan->failed) || atomic_load(&tx->filling))
		return;
	for (;;) {
		if (!tx->big && tx->start == tx->end)
			tx_gather(chan);
		if (atomic_load(&chan->failed))
			return;
		if (atomic_load(&tx->filling) || (!tx->big && tx->start == tx->end))
			return;
		if (bytes >= budget) {
			worker_kick(chan);
			return;
		}
		errno = 0; /* stays 0 if the connection ends without a failed call */
		status = tx_send_once(chan, &bytes);
		if (status == TCPX_IN_PROGRESS) {
			if (!chan_wait_send(chan))
				return;
			if (awake) {
				/* The transport is full although chan_wait_send() returned 1, so
				 * the event that it found belongs to the receiving direction. The
				 * worker handles the event, because the owner of that direction may
				 * be this very thread. */
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

/* Called by the control thread for a stopped channel, whose directions have no owner: drops the
 * frame that is not sent completely. If the peer may still read lent memory of the frame, lease.c
 * takes the frame over. */
void chan_tx_drop(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;
	struct net_lent lent = {0};

	if (chan->tx.big && chan->net->ops->loan)
		chan->net->ops->loan->lent(chan->net, 1, &lent);
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
	if (atomic_load(&chan->tx.filling))
		core_tx_take(&peer->link.core, chan->index, chan->tx.orphan);
	else if (chan->tx.big || chan->tx.posting) /* frame not sent, no call under way */
		core_tx_pause(&peer->link.core, chan->index);
	chan->tx.orphan = NULL;
	link_unlock_only(&peer->link);
	path_unload(chan);
	chan->tx.big = chan->tx.posting = false;
}
