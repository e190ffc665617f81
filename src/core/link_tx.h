/* SPDX-License-Identifier: Apache-2.0 */
/* Sending: which frame a channel sends next, and how sending the frame ended. */
#ifndef CORE_LINK_TX_H
#define CORE_LINK_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "core/chan.h"
#include "core/job.h"
#include <tcpx/types.h>

struct core_link;

/* The frame that a channel sends. A channel sends one frame at a time. */
struct core_tx {
	struct frame frame;
	uint32_t channel;
	/* the segment list whose local memory, from `at` on, is the payload (READ_REQ: whose remote
	 * side is requested); if NULL, the payload is `bytes`, or empty */
	const struct core_segs *segs;
	struct core_cursor at;
	uint32_t pieces;   /* number of pieces of `segs` in the payload; READ_REQ: in the request */
	bool table;	   /* the frame has a table of the remote side of its pieces */
	const void *bytes; /* payload of a notification; otherwise NULL */
	/* the job that a frame with `segs` is cut from; valid until the link's lock is released */
	struct core_job *job;
};
/* Returns 1 if *tx is the next frame. A send call then counts as under way, and core_tx_pause() or
 * core_tx_sent() must follow. Returns 0 if there is nothing to send; ops->kick() is called when
 * there is a frame again. */
int core_tx_next(struct core_link *link, uint32_t channel, struct core_tx *tx);
/* Called when the transport has given the buffers back before it had sent the whole frame. Returns
 * 1 if the frame is aborted: its rest is then sent from scratch memory. While a transport keeps the
 * buffers, the send call stays open; if the frame is aborted, a kick asks the sender to take them
 * back. */
int core_tx_pause(struct core_link *link, uint32_t channel);
/* Called before the sender goes on with a paused frame. Returns 1 if the frame is aborted: its rest
 * is then sent from scratch memory, and its trailer says ABORTED. */
int core_tx_resume(struct core_link *link, uint32_t channel);
/* Called when the frame under way will arrive with wrong bytes. The frame counts as aborted, even
 * if it was acknowledged. */
void core_tx_torn(struct core_link *link, uint32_t channel);
/* Called when the source of the frame under way cannot be read. The frame is aborted, and its
 * request ends with `status`. If the frame serves a READ of the peer, this READ ends at the peer
 * with ERR_REMOTE, or with ERR_REMOTE_KEY if `status` is ERR_DEREGISTERED. */
void core_tx_spoiled(struct core_link *link, uint32_t channel, tcpx_status status);
/* Called when the channel ends and buffers of the frame under way were taken back before the peer
 * read them. The frame is sent again, even if the peer acknowledges it. */
void core_tx_unread(struct core_link *link, uint32_t channel);
/* Called when the transport has the whole frame. `valid`: its trailer says that the bytes are
 * right. If the transport kept the buffers for long, the peer may have acknowledged the frame
 * already. */
void core_tx_sent(struct core_link *link, uint32_t channel, bool valid);

/* Called when the channel ends while the frame's source is still being read. Moves the frame's
 * reference to *out_io. core_io_drop() must be called when nothing reads the source any more. */
void core_tx_take(struct core_link *link, uint32_t channel, struct core_io *out_io);
void core_io_drop(struct core_link *link, struct core_io *io);

/* Returns the request whose memory the frame under way is sent from, or NULL. */
struct core_xfer *core_tx_xfer(const struct core_link *link, uint32_t channel);
/* Returns the sequence up to which the peer has taken our frames out of the transport. */
uint64_t core_tx_taken(const struct core_link *link, uint32_t channel);
/* Returns the sequence up to which the peer has acknowledged our frames. */
uint64_t core_tx_acked(const struct core_link *link, uint32_t channel);
/* Returns the number of messages of a plugin that are in flight on the channel. */
uint32_t core_tx_messages(const struct core_link *link, uint32_t channel);

#endif
