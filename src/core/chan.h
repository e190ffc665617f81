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
	bool in_call; /* a call of the transport uses the buffers */
	/* the frame's bytes are given up: what is left of the frame is sent from, or received into,
	 * scratch memory */
	bool aborted;
	/* points to the reference count of `xfer`, `resp` or `note`, in which this frame counts 1;
	 * NULL if none of them is set */
	uint32_t *refs;
	/* whose memory the frame uses; at most one of `xfer`, `resp` and `note` is set */
	struct core_xfer *xfer;
	struct core_resp *resp;
	/* receiving: bytes of staging that the frame occupies, while it is arriving */
	uint32_t staged;
	struct core_note *note;
};

/* Arriving notifications that belong to the DATA frame directly before them (piggyback.c). */
struct core_piggyback {
	/* sequence of the last DATA frame that seemed to carry a whole WRITE (core_rx_begin), and
	 * the WRITE's id; both 0 if there was none */
	uint64_t write_seq, write_xfer;
	bool write_ok; /* the bytes of the WRITE write_xfer are applied */
	/* the notification of the WRITE write_xfer, while the notification arrives; otherwise
	 * NULL */
	struct core_notify_in *arriving;
	/* list of core_notify_in: complete notifications whose WRITEs are still being copied */
	struct list_node waiting;
};

/* The fences of a lost channel: the one that we sent and the peer's. */
struct core_fence {
	bool sent, got; /* our fence was sent; the peer's fence arrived */
	/* the peer's fence says that our frames up to this sequence are applied or refused */
	uint64_t applied;
};

struct core_chan {
	enum core_chan_state state;
	uint32_t index, epoch;
	/* core_tx_next() found nothing to send; code that queues work must kick the channel */
	bool idle;
	/* a send (tx) or receive (rx) call is still under way although the channel is stopped:
	 * core_chan_stays() */
	bool tx_stays, rx_stays;
	/* Sending. */
	struct core_inflight inflight;
	struct core_io tx;
	uint64_t tx_seq;   /* sequence of the frame under way; 0 if it has none */
	uint32_t tx_bytes; /* payload bytes of the frame under way */
	bool tx_torn;	   /* core_tx_torn() was called for the frame under way */
	/* Receiving. */
	struct core_rxseq rxseq;
	struct core_io rx;
	struct frame rx_frame; /* header of the frame under way */
	uint32_t commits;      /* number of chunks being copied to their destination */
	struct core_piggyback piggyback;
	/* Both directions. */
	struct core_fence fence;
};

#endif
