/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the core share with one another and with nobody else. */
#ifndef CORE_LINK_PRIV_H
#define CORE_LINK_PRIV_H

#include "core/link.h"
#include "core/status.h"

#define CORE_RING_SPARE 16 /* ring places kept for NACKs, so that acknowledgements never wait */

static inline struct core_chunk *core_ring_at(const struct core_chan *chan, uint64_t seq)
{
	return &chan->ring[seq % CORE_RING];
}

static inline uint64_t core_ring_used(const struct core_chan *chan)
{
	return chan->next_seq - 1 - chan->acked_seq;
}

/* chunk.c: the ring */
struct core_chunk *core_chunk_add(struct core_link *link, struct core_chan *chan,
				  struct frame *frame, struct core_job *job);
/* Its comm is closed: nothing reads the memory of its messages any more. */
void core_messages_back(struct core_link *link, struct core_chan *chan);
void core_chunks_ack(struct core_link *link, struct core_chan *chan, uint64_t seq);
bool core_chunks_requeue(struct core_link *link, struct core_chan *chan);
void core_chunk_refuse(struct core_link *link, struct core_chan *chan, uint64_t seq,
		       tcpx_status status);

/* ring.c: the ring as far as no request is looked at, and what is to be cut again */
int core_redo_add(struct core_link *link, const struct core_chunk *chunk);
void core_redo_pop(struct core_link *link, struct core_job *job);
void core_redo_free(struct core_link *link, struct core_job *job);
void core_chunks_detach(struct core_link *link, struct core_job *job);
void core_chunks_got(struct core_chan *chan, uint64_t seq);

/* queue.c: who wants to send */
void core_job_queue(struct core_link *link, struct core_job *job);
void core_job_unqueue(struct core_job *job);
bool core_job_has_more(const struct core_job *job);
bool core_job_cuttable(const struct core_job *job);
bool core_carries_small(const struct core_link *link, uint32_t channel);
bool core_carries_bulk(const struct core_link *link, uint32_t channel);
void core_kick(struct core_link *link, struct core_chan *chan);
void core_kick_small(struct core_link *link);
void core_kick_bulk(struct core_link *link, uint64_t bytes);
void core_kick_all(struct core_link *link);
void core_ctl_queue(struct core_link *link, const struct frame *frame);
void core_void_queue(struct core_link *link, const struct frame *frame);

/* xfer.c */
struct core_xfer *core_xfer_find(struct core_link *link, uint64_t id);
void core_xfer_end(struct core_link *link, struct core_xfer *xfer, tcpx_status status);
void core_xfer_check(struct core_link *link, struct core_xfer *xfer);
void core_io_release(struct core_link *link, struct core_io *io);
void core_io_abort(struct core_link *link, struct core_io *io);
void core_tx_abort(struct core_link *link, struct core_chan *chan);
void core_io_hold(struct core_io *io, struct core_xfer *xfer, struct core_push *push);
void core_io_hold_note(struct core_io *io, struct core_note *note);

/* fillq.c */
void core_fill_init(struct core_job *job);
void core_fill_want(struct core_link *link, struct core_job *job);
void core_fill_stop(struct core_link *link, struct core_job *job);
void core_fill_granted(struct core_link *link);
bool core_fill_leaves_eagerly(struct core_job *job);
bool core_fill_wants_more(struct core_job *job);
bool core_fill_is_ahead(const struct core_link *link, const struct core_job *job);
void core_fill_pulled(struct core_link *link, struct core_job *job); /* a channel cut of it */

/* push.c */
void core_push_check(struct core_link *link, struct core_push *push);
void core_push_cancel(struct core_link *link, uint64_t xfer_id);

/* link_rx.c */
void core_rx_lost(struct core_link *link, struct core_chan *chan);
void core_rx_applied(struct core_link *link, struct core_chan *chan, uint64_t seq,
		     tcpx_status status);

/* behind.c */
bool core_behind_fits(struct core_link *link, const struct core_chan *chan,
		      const struct frame *frame, struct core_job *job);
struct core_note *core_behind_next(struct core_chan *chan);
void core_behind_lost(struct core_link *link, struct core_note *note);
tcpx_status core_behind_begin(struct core_link *link, struct core_chan *chan,
			      const struct frame *frame, struct core_notify_in **out_msg);
void core_behind_undo(struct core_link *link, struct core_chan *chan);
bool core_behind_end(struct core_link *link, struct core_chan *chan, bool valid);
uint64_t core_behind_committed(struct core_link *link, struct core_chan *chan, uint64_t seq,
			       tcpx_status status);

/* message.c: SEND and RECV */
tcpx_status core_message_arrived(struct core_link *link, const struct frame *frame,
				 const void *data);
void core_message_match(struct core_link *link);
bool core_send_charge(struct core_link *link, struct core_xfer *xfer);
void core_sends_charge(struct core_link *link);
void core_message_cts(struct core_link *link, const struct frame *frame);
tcpx_status core_message_cancelled(struct core_link *link, const struct frame *frame);
void core_message_final(struct core_link *link, const struct frame *frame);
void core_message_free(struct core_link *link, struct core_send_in *msg);

/* note.c */
tcpx_status core_note_make(struct core_link *link, const void *data, uint64_t bytes,
			   bool standalone, struct core_note **out_note);
void core_note_start(struct core_link *link, struct core_note *note);
void core_note_drop(struct core_link *link, struct core_note *note);
void core_note_check(struct core_link *link, struct core_note *note);
tcpx_status core_note_keep(struct core_link *link, const struct frame *frame,
			   struct core_notify_in **out_msg);
void core_note_free(struct core_link *link, struct core_notify_in *msg);
void core_notes_free(struct core_link *link, struct list_node *head);
void core_note_publish(struct core_link *link, struct core_notify_in *msg);
tcpx_status core_note_begin(struct core_link *link, const struct frame *frame,
			    struct core_notify_in **out_msg);
void core_note_undo(struct core_link *link, const struct frame *frame);
tcpx_status core_note_part(struct core_link *link, const struct frame *frame);

/* cover.c */
void core_cover_init(struct core_link *link);
void core_cover_end(struct core_link *link);
bool core_cover_take(struct core_link *link, struct core_note *note);
void core_cover_wait(struct core_link *link, struct core_note *note);
void core_cover_back(struct core_link *link, struct core_note *note);
void core_cover_granted(struct core_link *link, uint64_t granted);
void core_cover_more(struct core_link *link);
bool core_wish_next(struct core_link *link, struct frame *frame);
uint64_t core_cover_tell(struct core_link *link);
bool core_cover_pay(struct core_link *link, uint64_t amount);
void core_cover_wish(struct core_link *link, const struct frame *frame);
void core_cover_published(struct core_link *link, uint64_t amount);
void core_cover_released(struct core_link *link, uint64_t amount);

/* queue.c: credits and staging of a link, where channels are to be woken */
bool core_link_pay(struct core_link *link, enum frame_credit kind, uint64_t amount);
void core_link_give(struct core_link *link, enum frame_credit kind, uint64_t amount, bool empty);
void core_stage_want(struct core_link *link, uint64_t bytes);
void core_stage_unwant(struct core_link *link, uint64_t bytes);
uint64_t core_stage_take(struct core_link *link, uint64_t want, uint64_t left);
void core_stage_free(struct core_link *link, uint64_t bytes);

/* Bulk channels 1 to this one carry their payloads behind the headers, those behind it messages. */
static inline uint32_t core_stream_channels(const struct core_link *link)
{
	return link->cfg.bulk_channels - link->cfg.message_channels;
}

static inline bool core_carries_messages(const struct core_link *link, uint32_t channel)
{
	return channel > core_stream_channels(link);
}

/* What is cut of the job now are messages; a READ's requests are not. */
static inline bool core_job_messages(const struct core_job *job)
{
	return job->by_msg && job->kind != CORE_JOB_REQUEST;
}

/* Of a staged source chunks are larger while there is enough for every channel: fewer frames, and
 * larger copies at the far side. */
static inline uint64_t core_chunk_bytes(const struct core_link *link, const struct core_job *job,
					uint64_t linear)
{
	uint64_t chunk = link->cfg.chunk_bytes, left = job->end - linear;
	bool others = link->bulk.next != link->bulk.prev;

	if (job->by_ref)
		return link->ref_chunk;
	if (job->by_msg)
		return link->cfg.message_bytes;
	while (job->fills && 2 * chunk <= link->cfg.filled_chunk_bytes &&
	       (others || left / (2 * chunk) >= 2 * core_stream_channels(link)))
		chunk *= 2;
	return chunk;
}

/* A chunk ends where a multiple of the chunk size lies in the transfer, so that neighbours in
 * staging fit together. */
static inline uint64_t core_chunk_limit(const struct core_link *link, const struct core_job *job,
					uint64_t linear, uint64_t bytes)
{
	uint64_t chunk = core_chunk_bytes(link, job, linear);
	uint64_t most = chunk - (job->linear_base + linear) % chunk;

	return bytes < most ? bytes : most;
}

/* Bytes of staged sources that are on their way on a channel before it takes no more: four chunks,
 * of large ones two. */
static inline uint64_t core_filled_window(const struct core_config *cfg)
{
	uint64_t few = CORE_FILLED_CHUNKS * (uint64_t)cfg->chunk_bytes;
	uint64_t large = (uint64_t)cfg->filled_chunk_bytes + cfg->chunk_bytes;

	return few > large ? few : large;
}

/* What is cut of it before the next one's turn. By reference so much that the peer finds neighbours
 * to copy as one. */
static inline uint64_t core_job_quantum(const struct core_link *link, const struct core_job *job)
{
	return job->by_ref ? CORE_REF_QUANTUM * (uint64_t)link->cfg.ref_chunk : CORE_QUANTUM_BYTES;
}

/* Up to where its bytes may be cut for the first time. */
static inline uint64_t core_job_cut_end(const struct core_job *job)
{
	return job->fills && job->ready < job->end ? job->ready : job->end;
}

/* Chunks of it are under way by reference, or as messages: its source may be read. */
static inline bool core_job_lent(const struct core_link *link, const struct core_job *job)
{
	return job->lent && (!link->dead || link->leased);
}

static inline struct core_xfer *core_job_xfer(struct core_job *job)
{
	return LIST_ENTRY(job, struct core_xfer, job);
}

static inline struct core_push *core_job_push(struct core_job *job)
{
	return LIST_ENTRY(job, struct core_push, job);
}

static inline struct core_note *core_job_note(struct core_job *job)
{
	return LIST_ENTRY(job, struct core_note, job);
}

#endif
