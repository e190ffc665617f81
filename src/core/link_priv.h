/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the files of the core share and that may end a request. Most comments are at their
 * definitions. */
#ifndef CORE_LINK_PRIV_H
#define CORE_LINK_PRIV_H

#include "core/link.h"
#include "core/queue_priv.h"
#include "core/status.h"

/* chunk.c */
struct core_chunk *core_chunk_add(struct core_link *link, struct core_chan *chan,
				  struct frame *frame, struct core_job *job);
/* Called when the channel's comms are closed, so that nothing reads the sources of its messages any
 * more. Requests that waited for this may end. */
void core_chunks_release_messages(struct core_link *link, struct core_chan *chan);
void core_chunks_ack(struct core_link *link, struct core_chan *chan, uint64_t seq);
bool core_chunks_requeue(struct core_link *link, struct core_chan *chan);
void core_chunk_refuse(struct core_link *link, struct core_chan *chan, uint64_t seq,
		       tcpx_status status);

/* xfer.c */
struct core_xfer *core_xfer_find(struct core_link *link, uint64_t id);
void core_xfer_end(struct core_link *link, struct core_xfer *xfer, tcpx_status status);
void core_xfer_check(struct core_link *link, struct core_xfer *xfer);
void core_io_release(struct core_link *link, struct core_io *io);
void core_io_abort(struct core_link *link, struct core_io *io);
void core_tx_abort(struct core_link *link, struct core_chan *chan);
void core_io_ref(struct core_io *io, struct core_xfer *xfer, struct core_resp *resp);
void core_io_ref_note(struct core_io *io, struct core_note *note);

/* resp.c */
void core_resp_check(struct core_link *link, struct core_resp *resp);
void core_resp_cancel(struct core_link *link, uint64_t xfer_id);

/* link_rx.c */
void core_rx_lost(struct core_link *link, struct core_chan *chan);
void core_rx_finished(struct core_link *link, struct core_chan *chan, uint64_t seq,
		      tcpx_status status);

/* piggyback.c */
bool core_piggyback_fits(struct core_link *link, const struct core_chan *chan,
			 const struct frame *frame, struct core_job *job);
struct core_note *core_piggyback_next(struct core_chan *chan);
void core_piggyback_lost(struct core_link *link, struct core_note *note);
tcpx_status core_piggyback_begin(struct core_link *link, struct core_chan *chan,
				 const struct frame *frame, struct core_notify_in **out_msg);
void core_piggyback_undo(struct core_link *link, struct core_chan *chan);
bool core_piggyback_end(struct core_link *link, struct core_chan *chan, bool valid);
uint64_t core_piggyback_committed(struct core_link *link, struct core_chan *chan, uint64_t seq,
				  tcpx_status status);

/* sendrecv.c */
tcpx_status core_send_arrived(struct core_link *link, const struct frame *frame, const void *data);
void core_sendrecv_match(struct core_link *link);
bool core_send_acquire(struct core_link *link, struct core_xfer *xfer);
void core_sendrecv_acquire(struct core_link *link);
void core_send_cleared(struct core_link *link, const struct frame *frame);
tcpx_status core_send_cancelled(struct core_link *link, const struct frame *frame);
void core_final_arrived(struct core_link *link, const struct frame *frame);
void core_send_in_free(struct core_link *link, struct core_send_in *msg);

/* notify.c */
tcpx_status core_note_make(struct core_link *link, const void *data, uint64_t bytes,
			   bool standalone, struct core_note **out_note);
void core_note_start(struct core_link *link, struct core_note *note);
void core_note_drop(struct core_link *link, struct core_note *note);
void core_note_check(struct core_link *link, struct core_note *note);
tcpx_status core_notify_in_new(struct core_link *link, const struct frame *frame,
			       struct core_notify_in **out_msg);
void core_notify_in_free(struct core_link *link, struct core_notify_in *msg);
void core_notify_in_free_all(struct core_link *link, struct list_node *head);
void core_notify_in_publish(struct core_link *link, struct core_notify_in *msg);
tcpx_status core_notify_in_begin(struct core_link *link, const struct frame *frame,
				 struct core_notify_in **out_msg);
void core_notify_in_undo(struct core_link *link, const struct frame *frame);
tcpx_status core_notify_in_part(struct core_link *link, const struct frame *frame);

/* cover.c */
void core_cover_init(struct core_link *link);
void core_cover_end(struct core_link *link);
bool core_cover_acquire(struct core_link *link, struct core_note *note);
void core_cover_wait(struct core_link *link, struct core_note *note);
void core_cover_refund(struct core_link *link, struct core_note *note);
void core_cover_granted(struct core_link *link, uint64_t granted);
void core_cover_more(struct core_link *link);
bool core_cover_request_next(struct core_link *link, struct frame *frame);
uint64_t core_cover_advertise(struct core_link *link);
bool core_cover_charge(struct core_link *link, uint64_t amount);
void core_cover_requested(struct core_link *link, const struct frame *frame);
void core_cover_published(struct core_link *link, uint64_t amount);
void core_cover_released(struct core_link *link, uint64_t amount);

#endif
