/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver of a channel: turns bytes of the transport into frames for the core. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/channel/chan_calls.h"
#include "engine/link/hold.h"
#include "engine/path/paths.h"
#include "engine/channel/rx_into.h"
#include "engine/link/stage.h"
#include "engine/link/vanish.h"
#include "engine/link/warm.h"
#include "sys/user.h"
#include "wire/frame_codec.h"

/* most bytes read after a large payload in one call: its trailer, the next header and table */
#define AHEAD_BULK 1024u
#define AHEAD_SMALL (32u << 10) /* most bytes read in one call while frames are small */

/* largest low-water mark of the socket, in bytes; saves two thirds of the receiver's wake-ups */
#define RECV_MARK (128u << 10)

/* Acts only between two receive calls, when nothing else would notice in time that the region is
 * deregistered. During a receive call the receiver alone may release the chunk's regions; after the
 * call it checks whether a region is retired (rx_note_retired()). */
void chan_rx_forget(struct engine_chan *chan, struct mem_region *region)
{
	uint32_t i;

	if (core_rx_in_call(&chan->peer->link.core, chan->index))
		return;
	for (i = 0; i < chan->rx.nheld; i++)
		if (chan->rx.held[i].region == region)
			break;
	if (i == chan->rx.nheld)
		return;
	core_rx_redirect(&chan->peer->link.core, chan->index);
	rx_release(&chan->rx);
}

/* Redirects the rest of the chunk to scratch if one of its regions was deregistered during the
 * receive call. The caller is the rx owner and holds link.lock. */
static void rx_note_retired(struct engine_chan *chan)
{
	const struct chan_rx *rx = &chan->rx;
	uint32_t i;

	for (i = 0; i < rx->nheld; i++)
		if (atomic_load(&rx->held[i].region->retired))
			core_rx_redirect(&chan->peer->link.core, chan->index);
}

/* Tells the core that no receive call works on the frame at the moment. If the core has aborted the
 * frame, releases the frame's regions and sends the rest of the frame to scratch. The caller holds
 * link.lock. */
static void rx_pause_call(struct engine_chan *chan)
{
	rx_note_retired(chan);
	if (!core_rx_pause(&chan->peer->link.core, chan->index))
		return;
	chan->rx.aborted = true;
	rx_release(&chan->rx);
}

static void rx_to_scratch(struct chan_rx *rx)
{
	rx->aborted = true;
}

/* Sets iov to the memory for the next bytes of the payload, at most `max` bytes: the destination,
 * or scratch if the frame is aborted. Returns the number of pieces, and their total length in
 * *out_bytes. */
static uint32_t rx_next_pieces(struct chan_rx *rx, struct iovec *iov, uint64_t max,
			       uint64_t *out_bytes)
{
	uint64_t left = rx->left < max ? rx->left : max, bytes = 0;
	uint32_t n = 0, i;

	if (rx->aborted) {
		while (bytes < left && n < 32) {
			uint64_t take = left - bytes;

			if (take > ENGINE_COPY_BYTES)
				take = ENGINE_COPY_BYTES;
			iov[n++] = (struct iovec){rx->message, take};
			bytes += take;
		}
	} else {
		if (rx->at == rx->niov && rx->beyond)
			path_more(rx);
		for (i = rx->at; i < rx->niov && bytes < left && n < NET_IOV_MAX - 1; i++) {
			uint64_t take = rx->iov[i].iov_len;

			if (take > left - bytes)
				take = left - bytes;
			iov[n++] = (struct iovec){rx->iov[i].iov_base, take};
			bytes += take;
		}
	}
	*out_bytes = bytes;
	return n;
}

static void rx_advance(struct chan_rx *rx, uint64_t bytes)
{
	rx->left -= bytes;
	while (bytes && rx->at < rx->niov && !rx->aborted) {
		struct iovec *iov = &rx->iov[rx->at];

		if (bytes < iov->iov_len) {
			iov->iov_base = (char *)iov->iov_base + bytes;
			iov->iov_len -= bytes;
			return;
		}
		bytes -= iov->iov_len;
		rx->at++;
	}
}

/* Called when the destination is no longer mapped: refuses the chunk. The channel goes on. */
static void rx_refuse_gone(struct chan_rx *rx)
{
	rx_refuse(rx, rx->core.kind == CORE_RX_SEGS ? TCPX_ERR_INVALID : TCPX_ERR_REMOTE);
}

/* Copies payload from the receive buffer into the piece. Returns the number of bytes copied: less
 * than the length of the piece if its memory has vanished. */
static size_t rx_put_piece(const struct chan_rx *rx, const struct iovec *piece)
{
	if (rx->vanishing && !rx->aborted)
		return sys_user_write(piece->iov_base, rx->buf + rx->used, piece->iov_len);
	memcpy(piece->iov_base, rx->buf + rx->used, piece->iov_len);
	return piece->iov_len;
}

/* Copies to their destination the payload bytes that are already in the receive buffer. */
static void rx_copy_buffered(struct engine_chan *chan)
{
	struct chan_rx *rx = &chan->rx;
	struct iovec iov[NET_IOV_MAX];

	while (rx->left && rx->used < rx->have) {
		uint64_t bytes, done = 0;
		uint32_t n = rx_next_pieces(rx, iov, rx->have - rx->used, &bytes), i;

		for (i = 0; i < n; i++) {
			size_t got = rx_put_piece(rx, &iov[i]);

			rx->used += (uint32_t)got;
			done += got;
			if (got < iov[i].iov_len)
				break;
		}
		if (i < n)
			vanish_sink(chan, &iov[i], n - i);
		rx_advance(rx, done);
		if (i < n)
			rx_refuse_gone(rx);
	}
}

/* If the frame's header and table are in the buffer, announces the frame to the core and finds its
 * destination. Returns 1 if the frame has begun, 0 if more bytes are needed, or the negative status
 * with which the channel ends. */
static int rx_take_header(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;
	struct chan_rx *rx = &chan->rx;
	uint32_t have = rx->have - rx->used;
	tcpx_status status;

	if (have < FRAME_HEADER_BYTES)
		return 0;
	status = wire_frame_decode(rx->buf + rx->used, &rx->frame);
	if (status != TCPX_OK)
		return status;
	if (have < FRAME_HEADER_BYTES + rx->frame.table_bytes)
		return 0;
	rx->aborted = rx->torn = rx->vanishing = false;
	rx->verdict = TCPX_OK;
	rx->niov = rx->at = 0;
	rx->beyond = 0;
	rx->path = path_of_frame(chan);
	if (rx->frame.type == FRAME_READ_REQ)
		path_asked(peer);
	link_lock(&peer->link);
	status = core_rx_begin(&peer->link.core, chan->index, &rx->frame, &rx->core);
	link_unlock_only(&peer->link);
	if (status == TCPX_OK)
		status = rx_into(chan, rx->buf + rx->used + FRAME_HEADER_BYTES);
	rx->used += FRAME_HEADER_BYTES + rx->frame.table_bytes;
	if (status != TCPX_OK)
		return status;
	rx->left = rx->path->apart ? 0 : rx->frame.payload_bytes;
	rx->bulk = rx->left > ENGINE_COPY_BYTES;
	rx->state = rx->left ? RX_PAYLOAD : RX_TRAILER;
	return 1;
}

/* Ends a frame whose payload is complete: tells the core, and releases the frame's regions or
 * starts the copy that still uses them. `valid` says whether the bytes are right. If the returned
 * status is negative, the channel ends. */
static tcpx_status rx_end_frame(struct engine_chan *chan, bool valid)
{
	struct engine_peer *peer = chan->peer;
	struct chan_rx *rx = &chan->rx;
	tcpx_status verdict = rx->verdict, status;
	bool lost;

	link_lock(&peer->link);
	rx_note_retired(chan);
	lost = core_rx_aborted(&peer->link.core, chan->index);
	link_unlock_only(&peer->link);
	if (lost && rx->core.kind == CORE_RX_REGION)
		verdict = TCPX_ERR_REMOTE_KEY; /* a region has been deregistered */
	if (valid && !lost && rx->stage && verdict == TCPX_OK)
		verdict = stage_commit(chan);
	else if (rx->stage)
		stage_close(rx->stage);
	rx->stage = NULL;
	/* Unless a copy still uses them, the regions are released here: before the acknowledgement,
	 * after which the transfer may end and the application may deregister them. */
	if (verdict != TCPX_IN_PROGRESS)
		rx_release(rx);
	link_lock(&peer->link);
	status = core_rx_end(&peer->link.core, chan->index, valid, verdict, rx->message);
	hold_got(chan);
	link_unlock_only(&peer->link);
	rx->state = RX_HEADER;
	if (!rx->commit && rx->path->discard)
		rx->path->discard(chan);
	if (rx->commit && status == TCPX_OK)
		rx->path->commit(chan, rx->commit);
	else if (rx->commit)
		stage_close(rx->commit); /* the channel ends, so the chunk is not acknowledged */
	rx->commit = NULL;
	return status;
}

/* Reads the trailer, if the frame has one, and ends the frame. Returns 1 if the frame has ended, 0
 * if more bytes are needed, or the negative status with which the channel ends. */
static int rx_take_trailer(struct engine_chan *chan)
{
	struct chan_rx *rx = &chan->rx;
	struct frame_trailer trailer = {.status = FRAME_VALID};
	tcpx_status status;

	if (rx->frame.payload_bytes && !rx->path->apart) {
		if (rx->have - rx->used < FRAME_TRAILER_BYTES)
			return 0;
		status = wire_trailer_decode(rx->buf + rx->used, rx->frame.seq, &trailer);
		if (status != TCPX_OK)
			return status;
		rx->used += FRAME_TRAILER_BYTES;
		/* Senders copy small payloads. A large one may have changed while it was sent, if
		 * the connection was reset. */
		if (rx->frame.payload_bytes > ENGINE_COPY_BYTES && chan->net->ops->zerocopy &&
		    !chan->net->ops->zerocopy->intact(chan->net))
			return TCPX_ERR_PEER_RESET;
	}
	status = rx_end_frame(chan, trailer.status == FRAME_VALID && !rx->torn);
	return status == TCPX_OK ? 1 : (int)status;
}

/* Processes the bytes in the buffer up to the first incomplete header or trailer, and moves the
 * rest to the beginning of the buffer. If the returned status is negative, the channel ends. */
static tcpx_status rx_parse(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;
	struct chan_rx *rx = &chan->rx;

	for (;;) {
		int step = 1;

		switch (rx->state) {
		case RX_HEADER:
			step = rx_take_header(chan);
			break;
		case RX_PAYLOAD:
			rx_copy_buffered(chan);
			if (rx->left)
				step = 0;
			else
				rx->state = RX_TRAILER;
			break;
		case RX_TRAILER:
			step = rx_take_trailer(chan);
			break;
		}
		if (step < 0)
			return (tcpx_status)step;
		if (step)
			continue;
		if (rx->state != RX_HEADER) {
			link_lock(&peer->link);
			rx_pause_call(chan);
			link_unlock_only(&peer->link);
		}
		if (rx->used == rx->have) {
			rx->used = rx->have = 0;
		} else if (rx->used) {
			memmove(rx->buf, rx->buf + rx->used, rx->have - rx->used);
			rx->have -= rx->used;
			rx->used = 0;
		}
		return TCPX_OK;
	}
}

/* Makes one receive call: the payload goes to its destination, the bytes after it into the buffer.
 * Adds the number of bytes to *out_bytes. Sets *out_all to whether the transport had no more.
 * Returns IN_PROGRESS if nothing has arrived, or an error that ends the channel. If the destination
 * is no longer mapped, refuses the chunk and returns OK. */
static tcpx_status rx_receive(struct engine_chan *chan, uint64_t *out_bytes, bool *out_all)
{
	struct engine_peer *peer = chan->peer;
	struct chan_rx *rx = &chan->rx;
	struct iovec iov[NET_IOV_MAX + 1];
	uint64_t direct = 0, offered;
	uint32_t n = 0, room;
	size_t got = 0;
	tcpx_status status;

	if (rx->state != RX_HEADER) {
		link_lock(&peer->link);
		if (core_rx_resume(&peer->link.core, chan->index))
			rx_to_scratch(rx);
		link_unlock_only(&peer->link);
	}
	if (rx->state == RX_PAYLOAD) {
		n = rx_next_pieces(rx, iov, NET_CALL_BYTES, &direct);
		warm_write(iov, n);
	}
	room = ENGINE_RX_BUFFER - rx->have;
	if (room > (rx->bulk ? AHEAD_BULK : AHEAD_SMALL))
		room = rx->bulk ? AHEAD_BULK : AHEAD_SMALL;
	offered = direct;
	if (direct == rx->left || rx->state != RX_PAYLOAD) {
		iov[n++] = (struct iovec){rx->buf + rx->have, room};
		offered += room;
	}
	chan->net->rx_vanishing = rx->vanishing && direct && !rx->aborted;
	status = chan->net->ops->recv(chan->net, iov, (int)n, &got);
	if (status == TCPX_OK) {
		uint64_t take = got < direct ? got : direct;

		if (chan->net->ops->loan && chan->net->ops->loan->torn(chan->net)) {
			if (rx->state != RX_PAYLOAD)
				return TCPX_ERR_PROTOCOL; /* only payloads are lent */
			rx->torn = true;
		}
		rx_advance(rx, take);
		rx->have += (uint32_t)(got - take);
		*out_bytes += got;
		*out_all = got < offered;
	} else if (rx->state != RX_HEADER) {
		if (status == TCPX_ERR_INVALID && !rx->aborted)
			vanish_sink(chan, iov, n - (direct == rx->left));
		link_lock(&peer->link);
		rx_pause_call(chan);
		link_unlock_only(&peer->link);
	}
	if (status == TCPX_ERR_INVALID && !rx->aborted) {
		rx_refuse_gone(rx);
		return TCPX_OK;
	}
	return status;
}

bool chan_rx_run(struct engine_chan *chan, uint64_t budget)
{
	uint64_t bytes = 0;
	tcpx_status status = TCPX_OK;
	bool all = false;
	int err = 0;

	if (atomic_load(&chan->failed))
		return false;
	while (status == TCPX_OK && bytes < budget) {
		uint64_t before = bytes;

		errno = 0; /* stays 0 if the connection ends without a failed call */
		status = rx_receive(chan, &bytes, &all);
		err = errno;
		if (status == TCPX_OK && bytes > before) {
			status = rx_parse(chan);
			err = 0; /* a malformed frame has no errno */
		}
		if (status == TCPX_OK && all && chan->rx.state == RX_HEADER && !chan->rx.have)
			break; /* a further call would probably find nothing */
	}
	if (bytes)
		atomic_store_explicit(&chan->heard_ns, clock_now_ns(), memory_order_relaxed);
	if (status != TCPX_OK && status != TCPX_IN_PROGRESS)
		chan_fail(chan, status, err);
	return bytes;
}

void chan_rx_mark(struct engine_chan *chan)
{
	struct chan_rx *rx = &chan->rx;
	uint64_t expected = rx->left + FRAME_TRAILER_BYTES;
	size_t mark = 1;

	/* The mark never exceeds what is sure to come: the rest of the payload and its trailer. */
	if (rx->state == RX_PAYLOAD && rx->left > ENGINE_COPY_BYTES)
		mark = expected < RECV_MARK ? expected : RECV_MARK;
	chan->net->ops->recv_mark(chan->net, mark);
}

/* Called by the control thread for a stopped channel: drops the frame that has arrived in part. */
void chan_rx_drop(struct engine_chan *chan)
{
	rx_release(&chan->rx);
	if (chan->rx.stage)
		stage_close(chan->rx.stage);
	chan->rx.stage = NULL;
}
