/* SPDX-License-Identifier: Apache-2.0 */
/* A channel's ring of unacknowledged frames: acknowledged, refused, queued again or forgotten. */
#include "core/link_priv.h"

#include <string.h>

/* Does somebody of ours wait for this frame's acknowledgement? */
static bool needs_ack(const struct core_link *link, const struct core_job *job)
{
	if (!job)
		return false;
	if (job->fills && !job->small)
		return true; /* its staging is held until then */
	if (job->path != CORE_PATH_STREAM && job->kind != CORE_JOB_REQUEST)
		return true;
	switch (job->kind) {
	case CORE_JOB_WRITE:
		return true;
	case CORE_JOB_NOTE:
		return link->flush || LIST_ENTRY(job, const struct core_note, job)->xfer != NULL;
	case CORE_JOB_PUSH: /* only memory here waits; the reader knows its bytes */
		return !job->small || job->by_lane ||
		       link->npushes * 4 >= link->cfg.credit_in[FRAME_CREDIT_READ];
	default:
		return false;
	}
}

struct core_chunk *core_chunk_add(struct core_link *link, struct core_chan *chan,
				  struct frame *frame, struct core_job *job)
{
	struct core_chunk *chunk = core_ring_at(chan, chan->next_seq);
	uint64_t bulk = (uint64_t)core_stream_channels(link) * link->cfg.chunk_bytes;
	bool needed = needs_ack(link, job), ask;

	memset(chunk, 0, sizeof(*chunk));
	chunk->job = job;
	chunk->type = frame->type;
	chunk->bytes = frame->payload_bytes;
	chunk->staged = job && job->staged;
	chunk->leads = core_behind_fits(link, chan, frame, job);
	chunk->filled = job && job->fills && !job->small;
	if (chunk->filled)
		chan->filled_bytes += chunk->bytes;
	chunk->path = core_path_of_payload(frame);
	if (chunk->path != CORE_PATH_STREAM)
		job->lent++;
	if (chunk->path == CORE_PATH_REFERENCE)
		link->ref_bytes += chunk->bytes;
	else if (chunk->path == CORE_PATH_MESSAGE)
		chan->messages++;
	chunk->linear = frame->linear;
	frame->seq = chan->next_seq++;
	frame->epoch = chan->epoch;
	chan->unasked_bytes += frame->payload_bytes;
	if (job)
		job->inflight++;
	chan->ack_needed |= needed;
	/* The last frame a transfer puts on a channel asks, so that DONE needs no extra frame. */
	/* One whose notification is the next frame leaves it to that. */
	ask = (needed && !chunk->leads &&
	       ((job->end - job->linear < bulk && !job->redo) || job->fills ||
		chunk->path == CORE_PATH_MESSAGE)) ||
	      chan->unasked_bytes >= CORE_ACK_BYTES ||
	      chan->next_seq - 1 -
			      (chan->asked_seq > chan->acked_seq ? chan->asked_seq
								 : chan->acked_seq) >=
		      CORE_RING / 4;
	if (ask || frame->type == FRAME_NOP) {
		frame->flags |= FRAME_F_ACK;
		chan->asked_seq = frame->seq;
		chan->unasked_bytes = 0;
		chan->ack_needed = false;
	}
	return chunk;
}

static void job_check(struct core_link *link, struct core_job *job)
{
	switch (job->kind) {
	case CORE_JOB_PUSH:
		core_push_check(link, core_job_push(job));
		break;
	case CORE_JOB_NOTE:
		core_note_check(link, core_job_note(job));
		break;
	default:
		core_xfer_check(link, core_job_xfer(job));
		break;
	}
}

/* An announcement that the peer answered, although its fence denies that it came, is not needed
 * again: it would stand before the SEND's bytes for ever. */
static bool chunk_answered(const struct core_chunk *chunk)
{
	return chunk->type == FRAME_RTS && chunk->job->cleared;
}

/* Back to where it came from. False: no memory, the link ends. */
static bool requeue(struct core_link *link, const struct core_chunk *chunk)
{
	if (chunk->job->stopped || chunk->refused || chunk->aborted || chunk_answered(chunk))
		return true;
	if (core_redo_add(link, chunk)) {
		link->cfg.ops->fail(link->cfg.arg, TCPX_ERR_NO_MEMORY);
		return false;
	}
	link->resent++;
	return true;
}

static void ref_over(struct core_link *link, struct core_chunk *chunk)
{
	uint64_t window = link->cfg.ref_window;
	bool was_full = link->ref_bytes >= window;

	link->ref_bytes -= chunk->bytes;
	if (was_full && link->ref_bytes < window)
		core_kick_bulk(link, 1); /* one carries them all */
}

/* What its memory was in use for is through, or will come again. */
static void loan_over(struct core_link *link, struct core_chan *chan, struct core_chunk *chunk)
{
	enum core_path path = chunk->path;

	if (path == CORE_PATH_STREAM)
		return;
	chunk->path = CORE_PATH_STREAM;
	if (chunk->job)
		chunk->job->lent--;
	if (path == CORE_PATH_REFERENCE)
		ref_over(link, chunk);
	else
		chan->messages--; /* whoever acknowledged it looks for more to send */
}

static void chunk_acked(struct core_link *link, struct core_chan *chan, struct core_chunk *chunk)
{
	struct core_job *job = chunk->job;

	loan_over(link, chan, chunk);
	if (chunk->type == FRAME_NACK)
		core_rxseq_nack_forget(&chan->rxseq, chunk->linear);
	if (chunk->ctl)
		link->cfg.ops->free(link->cfg.arg, chunk->ctl, sizeof(*chunk->ctl));
	chunk->ctl = NULL;
	if (!job)
		return;
	if (chunk->unread && !requeue(link, chunk))
		return;
	chunk->job = NULL;
	job->inflight--;
	if (chunk->unread) {
		core_job_unqueue(job);
		core_job_queue(link, job);
	} else if (!chunk->refused && !chunk->aborted) {
		job->acked += chunk->bytes;
	}
	job_check(link, job);
}

void core_messages_back(struct core_link *link, struct core_chan *chan)
{
	uint64_t seq;

	for (seq = chan->acked_seq + 1; seq < chan->next_seq; seq++)
		if (core_ring_at(chan, seq)->path == CORE_PATH_MESSAGE)
			loan_over(link, chan, core_ring_at(chan, seq));
	/* Who ends is in the ring no more. */
	for (seq = chan->acked_seq + 1; seq < chan->next_seq; seq++)
		if (core_ring_at(chan, seq)->job)
			job_check(link, core_ring_at(chan, seq)->job);
}

static struct core_job *oldest_message(struct core_chan *chan)
{
	for (uint64_t seq = chan->acked_seq + 1; seq < chan->next_seq; seq++)
		if (core_ring_at(chan, seq)->path == CORE_PATH_MESSAGE)
			return core_ring_at(chan, seq)->job;
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
	if (!job->stuck)
		job->stuck = true;
	else if (job->kind == CORE_JOB_PUSH)
		core_push_stop(link, core_job_push(job), TCPX_ERR_REMOTE);
	else
		core_xfer_cancel(link, core_job_xfer(job), status);
}

void core_chunks_ack(struct core_link *link, struct core_chan *chan, uint64_t seq)
{
	bool was_full = core_ring_used(chan) >= CORE_RING - CORE_RING_SPARE;

	while (chan->acked_seq < seq) {
		chan->acked_seq++;
		chunk_acked(link, chan, core_ring_at(chan, chan->acked_seq));
	}
	if (was_full)
		core_kick(link, chan);
}

void core_chunk_refuse(struct core_link *link, struct core_chan *chan, uint64_t seq,
		       tcpx_status status)
{
	struct core_chunk *chunk;

	if (seq <= chan->acked_seq || seq >= chan->next_seq)
		return;
	chunk = core_ring_at(chan, seq);
	if (chunk->refused)
		return;
	chunk->refused = true;
	if (chunk->job && chunk->job->kind == CORE_JOB_WRITE)
		core_xfer_end(link, core_job_xfer(chunk->job), status);
}

/* A frame that never arrived gives back what it cost, since the peer will not. */
static void uncharge(struct core_link *link, struct core_chunk *chunk)
{
	struct core_job *job = chunk->job;

	if (chunk->type == FRAME_READ_REQ)
		core_credit_refund(&link->credit[FRAME_CREDIT_READ], 1);
	if (chunk->staged)
		core_stage_out_lost(&link->stage_out, chunk->bytes, job && !job->stopped);
}

/* What the peer did not apply goes back to where it came from, in its old order. False: no memory,
 * the link ends and the ring stays for core_link_fail. */
bool core_chunks_requeue(struct core_link *link, struct core_chan *chan)
{
	uint64_t seq;

	for (seq = chan->acked_seq + 1; seq < chan->next_seq; seq++) {
		struct core_chunk *chunk = core_ring_at(chan, seq);
		struct core_job *job = chunk->job;

		if (chunk->ctl) {
			list_push_back(&link->ctl, &chunk->ctl->node);
			link->nctl++;
			chunk->ctl = NULL;
			core_kick_small(link);
		}
		loan_over(link, chan, chunk);
		uncharge(link, chunk);
		if (!job)
			continue;
		if (job->kind == CORE_JOB_NOTE && core_job_note(job)->behind) {
			chunk->job = NULL;
			job->inflight--;
			core_behind_lost(link, core_job_note(job));
			continue;
		}
		if (!requeue(link, chunk))
			return false;
		chunk->job = NULL;
		job->inflight--;
		core_job_unqueue(job);
		core_job_queue(link, job);
		job_check(link, job);
	}
	chan->acked_seq = chan->next_seq - 1;
	return true;
}
