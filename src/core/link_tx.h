/* SPDX-License-Identifier: Apache-2.0 */
/* Sending: which frame a channel sends next, and how sending it ended. */
#ifndef CORE_LINK_TX_H
#define CORE_LINK_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "core/chan.h"
#include "core/job.h"
#include <tcpx/types.h>

struct core_link;

/* The frame that a channel sends. There is one at a time. */
struct core_tx {
	struct frame frame;
	uint32_t channel;
	/* the payload is the local side of this list from `at` on; NULL: the payload is `bytes`, if
	 * there is one */
	const struct core_segs *segs;
	struct core_cursor at;
	uint32_t pieces;   /* how many pieces of `segs` the payload has; READ_REQ: the request */
	bool table;	   /* the frame has a table: the remote side of its pieces */
	const void *bytes; /* payload of a notification */
	/* what a frame with `segs` was cut of; valid until the lock is released */
	struct core_job *job;
};
/* 1: *tx is the next frame and its call has begun; core_tx_pause or core_tx_sent follows. 0: there
 * is nothing to send, and a kick tells when there is. */
int core_tx_next(struct core_link *link, uint32_t channel, struct core_tx *tx);
/* The transport gave the buffers back although the frame is not sent completely. 1: the frame is
 * aborted, and its rest is sent from scratch memory. As long as a transport keeps the buffers, the
 * send call stays open; a kick then asks the sender to take them back. */
int core_tx_pause(struct core_link *link, uint32_t channel);
/* Called before the sender goes on with a paused frame. 1: the frame is aborted: its rest is sent
 * from scratch memory, and its trailer says ABORTED. */
int core_tx_resume(struct core_link *link, uint32_t channel);
/* The frame under way arrives with wrong bytes: it counts as aborted even if it was
 * acknowledged. */
void core_tx_torn(struct core_link *link, uint32_t channel);
/* The source of the frame under way cannot be read. The frame is aborted, and its request ends with
 * `status`. If the frame serves a READ of the peer, the READ ends there with ERR_REMOTE, or with
 * ERR_REMOTE_KEY if `status` is ERR_DEREGISTERED. */
void core_tx_spoiled(struct core_link *link, uint32_t channel, tcpx_status status);
/* The channel ends, and buffers of the frame under way were taken back before the peer read them:
 * the frame is sent again even if the peer acknowledged it. */
void core_tx_unread(struct core_link *link, uint32_t channel);
/* The transport has the whole frame. valid: its trailer says that the bytes are right. If the
 * transport kept the buffers for long, the peer may have acknowledged the frame already. */
void core_tx_sent(struct core_link *link, uint32_t channel, bool valid);

/* The channel ends while the frame's source is still being read: moves the reference to *out_io.
 * core_io_drop() returns it when nothing reads the source any more. */
void core_tx_take(struct core_link *link, uint32_t channel, struct core_io *out_io);
void core_io_drop(struct core_link *link, struct core_io *io);

/* The request from whose memory the frame under way is sent; NULL: none. */
struct core_xfer *core_tx_xfer(const struct core_link *link, uint32_t channel);
/* The sequence up to which the peer has taken our frames out of the transport. */
uint64_t core_tx_taken(const struct core_link *link, uint32_t channel);
/* The sequence up to which the peer has acknowledged our frames. */
uint64_t core_tx_acked(const struct core_link *link, uint32_t channel);
/* The number of messages of a plugin that are in flight on the channel. */
uint32_t core_tx_messages(const struct core_link *link, uint32_t channel);

#endif
