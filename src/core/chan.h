/* SPDX-License-Identifier: Apache-2.0 */
/* One channel of a link: its frames in flight, the frame under way in each direction, the fence. */
#ifndef CORE_CHAN_H
#define CORE_CHAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "base/list.h"
#include "core/inflight.h"
#include "core/rxseq.h"

struct core_notify_in;
struct core_note;
struct core_resp;
struct core_xfer;

enum core_chan_state {
	CORE_CHAN_DOWN = 0,
	CORE_CHAN_UP,
	CORE_CHAN_FENCING, /* the channel is lost, and the two fences are not exchanged yet */
};

/* A frame under way in one direction of a channel, inside a call of the transport or between two
 * calls. */
struct core_io {
	bool busy;    /* a frame is under way */
	bool in_call; /* the transport has the buffers */
	/* its bytes are given up: the rest is sent from or received into scratch memory */
	bool aborted;
	/* the reference count of `xfer`, `resp` or `note`, in which this frame counts
	 * 1; NULL: none */
	uint32_t *refs;
	/* whose memory the frame uses; at most one of xfer, read response and note is set */
	struct core_xfer *xfer;
	struct core_resp *resp;
	/* receiving: bytes of staging that this frame took and has not handed to a commit */
	uint32_t staged;
	struct core_note *note;
};

/* Arriving notifications that belong to the DATA frame directly before them (piggyback.c). */
struct core_piggyback {
	/* the last DATA frame that carried a whole WRITE, and its transfer; 0: none */
	uint64_t write_seq, write_xfer;
	bool write_ok; /* the bytes of that WRITE are applied */
	/* the notification of that WRITE while its frame arrives; else NULL */
	struct core_notify_in *arriving;
	/* core_notify_in: arrived whole, while the bytes of their WRITEs are still being copied */
	struct list_node waiting;
};

/* The fences of a lost channel: the one that we sent and the peer's. */
struct core_fence {
	bool sent, got; /* sent: our fence left; got: the peer's arrived */
	/* the peer's fence says that it has applied our frames up to this sequence */
	uint64_t applied;
};

struct core_chan {
	enum core_chan_state state;
	uint32_t index, epoch;
	/* core_tx_next found nothing to send; whoever queues work must kick the channel */
	bool idle;
	/* the call of the sender (tx) or the receiver (rx) lasts beyond the channel's stop:
	 * core_chan_stays() */
	bool tx_stays, rx_stays;
	/* Sending. */
	struct core_inflight inflight;
	struct core_io tx;
	uint64_t tx_seq;   /* sequence of the frame under way; 0: it has none */
	uint32_t tx_bytes; /* bytes of its payload */
	bool tx_torn;	   /* core_tx_torn() has counted it as aborted */
	/* Receiving. */
	struct core_rxseq rxseq;
	struct core_io rx;
	struct frame rx_frame; /* header of the frame under way */
	uint32_t commits;      /* staged chunks that are being copied to their destination */
	struct core_piggyback piggyback;
	struct core_fence fence;
};

#endif
