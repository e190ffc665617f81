/* SPDX-License-Identifier: Apache-2.0 */
/* Sending: the next frame of a channel, and what became of it. */
#ifndef CORE_LINK_TX_H
#define CORE_LINK_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "core/chan.h"
#include "core/job.h"
#include <tcpx/types.h>

struct core_link;

/* Sending: one frame at a time per channel. */
struct core_tx {
	struct frame frame;
	uint32_t channel;
	const struct core_prog *prog; /* payload from its local side, from at on; NULL: bytes */
	struct core_cursor at;
	uint32_t pieces;
	bool table;	      /* encode the pieces' remote side as the frame's table */
	const void *bytes;    /* payload of a note */
	struct core_job *job; /* of a frame with prog; good until the lock is let go */
};
/* 1: *tx is the next frame, its call has begun (core_tx_pause or core_tx_sent follows). */
int core_tx_next(struct core_link *link, uint32_t channel, struct core_tx *tx);
/* The transport gave the buffers back before the frame was through; 1: aborted, use scratch. While
 * it has them lent the call stays open; a kick tells that they are wanted back. */
int core_tx_pause(struct core_link *link, uint32_t channel);
/* Before going on with it; 1: aborted, use scratch and an ABORTED trailer. */
int core_tx_resume(struct core_link *link, uint32_t channel);
/* The frame under way arrives torn: aborted, even when it is acknowledged already. */
void core_tx_torn(struct core_link *link, uint32_t channel);
/* The source of the frame under way cannot be read: the frame ends aborted, its request with
 * status, a push with ERR_REMOTE at the reader. */
void core_tx_spoiled(struct core_link *link, uint32_t channel, tcpx_status status);
/* The channel goes away, and what it had lent of the frame under way was taken back unread. The
 * peer may count the frame as received: it is sent again all the same. */
void core_tx_unread(struct core_link *link, uint32_t channel);
/* The whole frame is with the transport. valid: its trailer said so. A frame that was lent may have
 * been acknowledged before. */
void core_tx_sent(struct core_link *link, uint32_t channel, bool valid);

/* A staged or lent source is still read while its channel goes away: takes its reference along;
 * core_io_drop gives it back when the read ended. */
void core_tx_take(struct core_link *link, uint32_t channel, struct core_io *out_io);
void core_io_drop(struct core_link *link, struct core_io *io);

/* The request whose memory the frame under way is sent from; NULL: of none. */
struct core_xfer *core_tx_xfer(const struct core_link *link, uint32_t channel);
/* Up to this sequence the peer has taken frames out of the transport. */
uint64_t core_tx_taken(const struct core_link *link, uint32_t channel);
/* Up to this one it has acknowledged them. */
uint64_t core_tx_acked(const struct core_link *link, uint32_t channel);
/* Messages that are sent and not acknowledged. */
uint32_t core_tx_messages(const struct core_link *link, uint32_t channel);

#endif
