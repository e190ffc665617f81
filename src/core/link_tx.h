/* SPDX-License-Identifier: Apache-2.0 */
/* Sending: the next frame of a channel, and how it ended. */
#ifndef CORE_LINK_TX_H
#define CORE_LINK_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "core/chan.h"
#include "core/job.h"
#include <tcpx/types.h>

struct core_link;

/* One frame at a time per channel. */
struct core_tx {
	struct frame frame;
	uint32_t channel;
	const struct core_prog *prog; /* payload from its local side, at `at`; NULL: bytes */
	struct core_cursor at;
	uint32_t pieces;
	bool table;	      /* the frame's table is the remote side of the pieces */
	const void *bytes;    /* payload of a note */
	struct core_job *job; /* of a frame with prog; valid until the lock is released */
};
/* 1: *tx is the next frame and its call has begun; core_tx_pause or core_tx_sent follows. 0: there
 * is nothing to send, and a kick tells when there is. */
int core_tx_next(struct core_link *link, uint32_t channel, struct core_tx *tx);
/* The transport gave the buffers back before the whole frame was sent. 1: aborted, the rest comes
 * from scratch memory. While a transport keeps the buffers the call stays open; then a kick asks
 * for them back. */
int core_tx_pause(struct core_link *link, uint32_t channel);
/* Before the sender goes on. 1: aborted, the rest comes from scratch and the trailer says
 * ABORTED. */
int core_tx_resume(struct core_link *link, uint32_t channel);
/* The frame under way arrives with wrong bytes: it counts as aborted even if it is acknowledged
 * already. */
void core_tx_torn(struct core_link *link, uint32_t channel);
/* The source of the frame under way cannot be read. The frame ends aborted; its request ends with
 * status, the peer's READ with ERR_REMOTE or ERR_REMOTE_KEY. */
void core_tx_spoiled(struct core_link *link, uint32_t channel, tcpx_status status);
/* The channel ends, and buffers of the frame under way were taken back before the peer read them.
 * The frame is sent again even if the peer acknowledges it. */
void core_tx_unread(struct core_link *link, uint32_t channel);
/* The whole frame is with the transport. valid: its trailer says so. A frame whose buffers the
 * transport kept may be acknowledged already. */
void core_tx_sent(struct core_link *link, uint32_t channel, bool valid);

/* The source is still read while its channel ends: moves the reference to *out_io; core_io_drop
 * returns it when the read has ended. */
void core_tx_take(struct core_link *link, uint32_t channel, struct core_io *out_io);
void core_io_drop(struct core_link *link, struct core_io *io);

/* The request whose memory the frame under way is sent from, or NULL. */
struct core_xfer *core_tx_xfer(const struct core_link *link, uint32_t channel);
/* The peer has taken frames up to this sequence out of the transport. */
uint64_t core_tx_taken(const struct core_link *link, uint32_t channel);
/* The peer has acknowledged frames up to this sequence. */
uint64_t core_tx_acked(const struct core_link *link, uint32_t channel);
/* Messages of a plugin that are in flight. */
uint32_t core_tx_messages(const struct core_link *link, uint32_t channel);

#endif
