/* SPDX-License-Identifier: Apache-2.0 */
/* The frame that a channel is sending: how it is interrupted, aborted, completed, or lost with
 * its channel. */
#include "core/link_priv.h"

int core_tx_pause(struct core_link *link, uint32_t channel)
{
	struct core_io *io = &link->chan[channel].tx;

	io->in_call = false;
	if (io->aborted)
		core_io_release(link, io);
	return io->aborted;
}

int core_tx_resume(struct core_link *link, uint32_t channel)
{
	link->chan[channel].tx.in_call = true;
	return link->chan[channel].tx.aborted;
}

void core_tx_torn(struct core_link *link, uint32_t channel)
{
	struct core_chan *chan = &link->chan[channel];
	struct core_xfer *xfer = chan->tx.xfer;
	uint64_t seq = chan->tx_seq;

	if (chan->tx_torn || !seq)
		return;
	chan->tx_torn = true;
	link->count.aborted++;
	if (seq > chan->inflight.acked_seq)
		core_inflight_at(&chan->inflight, seq)->aborted = true;
	else if (xfer && xfer->job.kind == CORE_JOB_WRITE)
		/* the peer acknowledged the frame before the send call returned */
		xfer->job.acked -= chan->tx_bytes;
}

void core_tx_spoiled(struct core_link *link, uint32_t channel, tcpx_status status)
{
	struct core_io *io = &link->chan[channel].tx;

	io->aborted = true;
	if (io->xfer)
		core_xfer_cancel(link, io->xfer, status);
	else if (io->resp)
		core_resp_stop(link, io->resp,
			       status == TCPX_ERR_DEREGISTERED ? TCPX_ERR_REMOTE_KEY
							       : TCPX_ERR_REMOTE);
}

void core_tx_unread(struct core_link *link, uint32_t channel)
{
	struct core_chan *chan = &link->chan[channel];

	if (chan->tx.busy && chan->tx_seq > chan->inflight.acked_seq)
		core_inflight_at(&chan->inflight, chan->tx_seq)->unread = true;
}

void core_tx_sent(struct core_link *link, uint32_t channel, bool valid)
{
	struct core_chan *chan = &link->chan[channel];
	struct core_inflight *inflight = &chan->inflight;
	uint64_t seq = chan->tx_seq;

	chan->tx.in_call = false;
	chan->tx.busy = false;
	if (!valid)
		core_tx_torn(link, channel);
	if (seq)
		link->count.tx_chunks++;
	if (seq && valid)
		link->count.tx_bytes += seq > inflight->acked_seq
						? core_inflight_at(inflight, seq)->bytes
						: chan->tx_bytes;
	core_io_release(link, &chan->tx);
}

void core_tx_take(struct core_link *link, uint32_t channel, struct core_io *out_io)
{
	struct core_io *io = &link->chan[channel].tx;

	*out_io = *io;
	*io = (struct core_io){0};
}

void core_io_drop(struct core_link *link, struct core_io *io)
{
	core_io_release(link, io);
}

struct core_xfer *core_tx_xfer(const struct core_link *link, uint32_t channel)
{
	return link->chan[channel].tx.xfer;
}

uint64_t core_tx_taken(const struct core_link *link, uint32_t channel)
{
	return link->chan[channel].inflight.taken_seq;
}

uint64_t core_tx_acked(const struct core_link *link, uint32_t channel)
{
	return link->chan[channel].inflight.acked_seq;
}

uint32_t core_tx_messages(const struct core_link *link, uint32_t channel)
{
	return link->chan[channel].inflight.messages;
}
