/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a frame in flight when it is acknowledged or refused, or when its channel is
 * lost. */
#include "core/link_priv.h"

#include <string.h>

/* Whether this side needs an acknowledgement for a frame of the job: to end a request or a flush,
 * to free memory, or to return READ credit before the peer has little of it left. */
static bool chunk_needs_ack(const struct core_link *link, const struct core_job *job)
{
	if (!job)
		return false;
	if (job->fills && !job->small)
		return true; /* the acknowledgement frees the staging memory of the source */
	if (job->path != CORE_PATH_STREAM && job->kind != CORE_JOB_REQUEST)
		return true;
	switch (job->kind) {
	case CORE_JOB_WRITE:
		return true;
	case CORE_JOB_NOTE:
		return link->notify.flush ||
		       LIST_ENTRY(job, const struct core_note, job)->xfer != NULL;
	/* A read response that is large or marked by_prio always needs an acknowledgement. Any
	 * other can do without, because the peer counts the bytes of its READ itself. But only an
	 * acknowledgement returns the peer's READ credit, so it needs one while a quarter or more
	 * of that credit is in use. */
	case CORE_JOB_RESP:
		return !job->small || job->by_prio ||
		       link->nresps * 4 >= link->cfg.credit_in[FRAME_CREDIT_READ];
	default:
		return false;
	}
}

/* Gives the frame the channel's next sequence, puts it into the channel's ring of unacknowledged
 * frames, and decides whether the frame asks for an acknowledgement. `job` is the job that the
 * frame is cut from, or NULL. The ring must have a free place. */
struct core_chunk *core_chunk_add(struct core_link *link, struct core_chan *chan,
				  struct frame *frame, struct core_job *job)
{
	struct core_inflight *inflight = &chan->inflight;
	struct core_chunk *chunk = core_inflight_at(inflight, inflight->next_seq);
	uint64_t bulk = (uint64_t)core_stream_channels(link) * link->cfg.chunk_bytes;
	bool needed = chunk_needs_ack(link, job), ask;

	memset(chunk, 0, sizeof(*chunk));
	chunk->job = job;
	chunk->type = frame->type;
	chunk->bytes = frame->payload_bytes;
	chunk->staged = job && job->staged;
	chunk->piggyback = core_piggyback_fits(link, chan, frame, job);
	chunk->filled = job && job->fills && !job->small;
	if (chunk->filled)
		inflight->filled_bytes += chunk->bytes;
	chunk->path = core_path_of_payload(frame);
	if (chunk->path != CORE_PATH_STREAM)
		job->reading++;
	if (chunk->path == CORE_PATH_REFERENCE)
		link->ref_bytes += chunk->bytes;
	else if (chunk->path == CORE_PATH_MESSAGE)
		inflight->messages++;
	chunk->linear = frame->linear;
	frame->seq = inflight->next_seq++;
	frame->epoch = chan->epoch;
	inflight->unasked_bytes += frame->payload_bytes;
	if (job)
		job->inflight++;
	inflight->ack_needed |= needed;
	/* An acknowledgement that is needed is asked for by the last frame that a transfer puts on
	 * each channel, so that the transfer's end needs no extra frame. Once less than a chunk per
	 * channel is left to cut, and nothing is queued to be sent again, any frame may be that
	 * last one, so each asks. Frames of staged sources and of plugin channels ask whenever one
	 * is needed. A WRITE whose notification is the next frame leaves the asking to it. Any
	 * frame asks if too much is unasked, and a NOP always does. */
	ask = (needed && !chunk->piggyback &&
	       ((job->end - job->linear < bulk && !job->retransmit) || job->fills ||
		chunk->path == CORE_PATH_MESSAGE)) ||
	      core_inflight_must_ask(inflight);
	if (ask || frame->type == FRAME_NOP) {
		frame->flags |= FRAME_F_ACK;
		core_inflight_ask(inflight);
	}
	return chunk;
}

static void chunk_job_check(struct core_link *link, struct core_job *job)
{
	switch (job->kind) {
	case CORE_JOB_RESP:
		core_resp_check(link, core_job_resp(job));
		break;
	case CORE_JOB_NOTE:
		core_note_check(link, core_job_note(job));
		break;
	default:
		core_xfer_check(link, core_job_xfer(job));
		break;
	}
}

/* Whether the chunk is the RTS of a SEND that the peer has answered with a CTS. Such an RTS must
 * not be sent again after its channel is lost, even if the peer's fence says that it did not
 * arrive: tx_cut() would never cut it, and the SEND's bytes, queued after it, would wait
 * forever. */
static bool chunk_answered(const struct core_chunk *chunk)
{
	return chunk->type == FRAME_RTS && chunk->job->cleared;
}

/* Queues the chunk to be sent again, unless its job has stopped, or the chunk was refused or
 * aborted, or is the RTS (announcement) of a SEND that the peer has answered. Returns false if
 * there is no memory; the link then ends. */
static bool chunk_requeue(struct core_link *link, const struct core_chunk *chunk)
{
	if (chunk->job->stopped || chunk->refused || chunk->aborted || chunk_answered(chunk))
		return true;
	if (core_retransmit_add(link, chunk)) {
		link->cfg.ops->fail(link->cfg.arg, TCPX_ERR_NO_MEMORY);
		return false;
	}
	link->count.resent++;
	return true;
}

/* Called when a chunk by reference is no longer in flight. Kicks a channel if the link's window for
 * such chunks was full and is open now. */
static void chunk_ref_end(struct core_link *link, struct core_chunk *chunk)
{
	uint64_t window = link->cfg.ref_window;
	bool was_full = link->ref_bytes >= window;

	link->ref_bytes -= chunk->bytes;
	if (was_full && link->ref_bytes < window)
		core_kick_bulk(link, 1); /* one channel can carry all chunks by reference */
}

/* Called when nothing reads the chunk's source any more. If the chunk is by reference or a message
 * of a plugin, it no longer counts in job->reading and in its window. */
static void chunk_source_end(struct core_link *link, struct core_chan *chan,
			     struct core_chunk *chunk)
{
	enum core_path path = chunk->path;

	if (path == CORE_PATH_STREAM)
		return;
	chunk->path = CORE_PATH_STREAM;
	if (chunk->job)
		chunk->job->reading--;
	if (path == CORE_PATH_REFERENCE)
		chunk_ref_end(link, chunk);
	else
		/* a message: if an ACK opens the channel's window, rx_ack() kicks the channel */
		chan->inflight.messages--;
}

/* Called when the peer has acknowledged the chunk. Counts the chunk's bytes in job->acked, unless
 * the chunk was refused or aborted. A chunk marked `unread` is queued again instead. What the job
 * belongs to (a transfer, read response or notification) may end here. */
static void chunk_acked(struct core_link *link, struct core_chan *chan, struct core_chunk *chunk)
{
	struct core_job *job = chunk->job;

	chunk_source_end(link, chan, chunk);
	if (chunk->type == FRAME_NACK)
		core_rxseq_nack_forget(&chan->rxseq, chunk->linear);
	if (chunk->ctl)
		link->cfg.ops->free(link->cfg.arg, chunk->ctl, sizeof(*chunk->ctl));
	chunk->ctl = NULL;
	if (!job)
		return;
	if (chunk->unread && !chunk_requeue(link, chunk))
		return;
	chunk->job = NULL;
	job->inflight--;
	if (chunk->unread) {
		core_job_unqueue(job);
		core_job_queue(link, job);
	} else if (!chunk->refused && !chunk->aborted) {
		job->acked += chunk->bytes;
	}
	chunk_job_check(link, job);
}

void core_chunks_release_messages(struct core_link *link, struct core_chan *chan)
{
	struct core_inflight *inflight = &chan->inflight;
	uint64_t seq;

	for (seq = inflight->acked_seq + 1; seq < inflight->next_seq; seq++)
		if (core_inflight_at(inflight, seq)->path == CORE_PATH_MESSAGE)
			chunk_source_end(link, chan, core_inflight_at(inflight, seq));
	/* chunk_job_check() may end a request, which clears `job` in all its chunks; so `job` is
	 * read anew for each chunk. */
	for (seq = inflight->acked_seq + 1; seq < inflight->next_seq; seq++)
		if (core_inflight_at(inflight, seq)->job)
			chunk_job_check(link, core_inflight_at(inflight, seq)->job);
}

/* Returns the job of the oldest plugin message in flight on the channel. Returns NULL if there is
 * no message, or if the job of the oldest one has ended. */
static struct core_job *oldest_message(struct core_chan *chan)
{
	struct core_inflight *inflight = &chan->inflight;
	for (uint64_t seq = inflight->acked_seq + 1; seq < inflight->next_seq; seq++)
		if (core_inflight_at(inflight, seq)->path == CORE_PATH_MESSAGE)
			return core_inflight_at(inflight, seq)->job;
	return NULL;
}

void core_chan_stuck(struct core_link *link, uint32_t channel, tcpx_status status)
{
	struct core_chan *chan = &link->chan[channel];
	struct core_job *job = NULL;

	if (!link->dead && chan->state == CORE_CHAN_UP)
		job = oldest_message(chan);
	if (!job)
		return;
	if (!job->stalled)
		job->stalled = true;
	else if (job->kind == CORE_JOB_RESP)
		core_resp_stop(link, core_job_resp(job), TCPX_ERR_REMOTE);
	else
		core_xfer_cancel(link, core_job_xfer(job), status);
}

/* Called when an ACK or a fence says that the peer has applied or refused the channel's frames up
 * to `seq`. Takes them out of the ring. If only NACKs could use the ring before, kicks the
 * channel. */
void core_chunks_ack(struct core_link *link, struct core_chan *chan, uint64_t seq)
{
	struct core_inflight *inflight = &chan->inflight;
	bool was_full = core_inflight_count(inflight) >= CORE_RING - CORE_RING_SPARE;

	while (inflight->acked_seq < seq) {
		inflight->acked_seq++;
		chunk_acked(link, chan, core_inflight_at(inflight, inflight->acked_seq));
	}
	if (was_full)
		core_kick(link, chan);
}

/* Called when a NACK or a fence says that the peer has refused the frame `seq`. If the frame
 * belongs to a WRITE, the WRITE ends with `status`. Does nothing if the frame is not in the ring or
 * is already marked as refused. */
void core_chunk_refuse(struct core_link *link, struct core_chan *chan, uint64_t seq,
		       tcpx_status status)
{
	struct core_inflight *inflight = &chan->inflight;
	struct core_chunk *chunk;

	if (seq <= inflight->acked_seq || seq >= inflight->next_seq)
		return;
	chunk = core_inflight_at(inflight, seq);
	if (chunk->refused)
		return;
	chunk->refused = true;
	if (chunk->job && chunk->job->kind == CORE_JOB_WRITE)
		core_xfer_end(link, core_job_xfer(chunk->job), status);
}

/* Called for each frame that the peer did not apply before the channel was lost. Takes back the
 * credit of a READ_REQ, since the peer cannot return it. Gives the grant of a staged chunk back to
 * the peer, and requests a new one if the job goes on. */
static void chunk_refund(struct core_link *link, struct core_chunk *chunk)
{
	struct core_job *job = chunk->job;

	if (chunk->type == FRAME_READ_REQ)
		core_credit_refund(&link->credit[FRAME_CREDIT_READ], 1);
	if (chunk->staged)
		core_stage_out_lost(&link->stage_out, chunk->bytes, job && !job->stopped);
}

/* Called after both fences are exchanged. Queues again the frames that the peer did not apply, in
 * the order in which they were sent, except those that nobody needs any more. NACKs are not queued
 * again: our fence has repeated the refusals. Returns false if there is no memory: the link then
 * ends, and core_link_fail() empties the ring. */
bool core_chunks_requeue(struct core_link *link, struct core_chan *chan)
{
	struct core_inflight *inflight = &chan->inflight;
	uint64_t seq;

	for (seq = inflight->acked_seq + 1; seq < inflight->next_seq; seq++) {
		struct core_chunk *chunk = core_inflight_at(inflight, seq);
		struct core_job *job = chunk->job;

		if (chunk->ctl) {
			list_push_back(&link->sendq.ctl, &chunk->ctl->node);
			link->sendq.nctl++;
			chunk->ctl = NULL;
			core_kick_small(link);
		}
		chunk_source_end(link, chan, chunk);
		chunk_refund(link, chunk);
		if (!job)
			continue;
		if (job->kind == CORE_JOB_NOTE && core_job_note(job)->piggybacked) {
			chunk->job = NULL;
			job->inflight--;
			core_piggyback_lost(link, core_job_note(job));
			continue;
		}
		if (!chunk_requeue(link, chunk))
			return false;
		chunk->job = NULL;
		job->inflight--;
		core_job_unqueue(job);
		core_job_queue(link, job);
		chunk_job_check(link, job);
	}
	inflight->acked_seq = inflight->next_seq - 1;
	return true;
}
