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
struct core_push;
struct core_xfer;

enum core_chan_state {
	CORE_CHAN_DOWN = 0,
	CORE_CHAN_UP,
	CORE_CHAN_FENCING, /* lost; the fences are not exchanged yet */
};

/* A frame under way in one direction, inside a call of the transport or between two. */
struct core_io {
	bool busy;	/* a frame is under way */
	bool in_call;	/* the transport has the buffers */
	bool aborted;	/* the rest goes to or comes from scratch memory */
	uint32_t *refs; /* counts this use of xfer, push or note; NULL when released */
	struct core_xfer *xfer;
	struct core_push *push;
	uint32_t staged; /* rx: bytes of staging taken for this frame and not passed on yet */
	struct core_note *note;
};

/* Arriving notifications that belong to the DATA frame directly before them (piggyback.c). */
struct core_piggyback {
	uint64_t write_seq, write_xfer; /* the last DATA frame that was all of its WRITE; 0: none */
	bool write_ok;			/* it is applied */
	struct core_notify_in *arriving; /* the frame under way is its notification */
	struct list_node waiting; /* core_notify_in: whole, their DATA frames are being committed */
};

/* The fences of a lost channel: ours, the peer's. */
struct core_fence {
	bool sent, got;
	uint64_t applied; /* up to this sequence the peer has applied our frames */
};

struct core_chan {
	enum core_chan_state state;
	uint32_t index, epoch;
	bool idle;		 /* core_tx_next found nothing; the next work needs a kick */
	bool tx_stays, rx_stays; /* core_chan_stays() */
	/* tx */
	struct core_inflight inflight;
	struct core_io tx;
	uint64_t tx_seq;   /* of the frame under way; 0: not sequenced */
	uint32_t tx_bytes; /* its payload */
	bool tx_torn;	   /* it is counted as aborted */
	/* rx */
	struct core_rxseq rxseq;
	struct core_io rx;
	struct frame rx_frame;
	uint32_t commits; /* staged chunks not applied yet */
	struct core_piggyback piggyback;
	struct core_fence fence;
};

#endif
