/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads that follow their headers on the channel, from and to memory that a socket call can
 * access. */
#include "engine/path/paths.h"

static void stream_claim(struct engine_chan *chan)
{
	struct chan_tx *tx = &chan->tx;

	tx->vanishing = tx->frame.segs && tx->frame.segs->vanishing;
}

static enum path_loaded stream_load(struct engine_chan *chan, bool *out_valid)
{
	struct chan_tx *tx = &chan->tx;
	const struct core_tx *frame = &tx->frame;

	(void)out_valid;
	path_header(tx, NULL);
	if (frame->bytes) {
		tx->iov[0] = (struct iovec){(void *)frame->bytes, frame->frame.payload_bytes};
		tx->niov = 1;
	} else if (frame->frame.payload_bytes) {
		struct core_cursor at = frame->at;
		uint64_t bytes = frame->frame.payload_bytes;

		tx->niov = path_map(frame->segs, &at, &bytes, tx->iov, CORE_PIECES_MAX);
	}
	return PATH_INLINE;
}

static tcpx_status stream_receive(struct engine_chan *chan, const struct core_segs *segs,
				  const uint8_t *sources, uint32_t bytes)
{
	struct chan_rx *rx = &chan->rx;

	(void)sources;
	(void)bytes;
	if (!segs)
		return TCPX_OK; /* rx->iov already holds the pieces of the regions */
	rx->next = core_cursor_at(segs, rx->core.linear);
	rx->beyond = rx->frame.payload_bytes;
	rx->vanishing = segs->vanishing;
	path_more(rx);
	return TCPX_OK;
}

const struct path_ops path_stream = {
	.core = CORE_PATH_STREAM,
	.claim = stream_claim,
	.load = stream_load,
	.receive = stream_receive,
};
