/* SPDX-License-Identifier: Apache-2.0 */
/* Something that is cut into frames, and the sizes it is cut in. */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/fill.h"
#include "core/path.h"
#include "core/prog.h"

struct core_redo;

#define CORE_LANE 0		      /* channel of small messages, and of what is by_lane */
#define CORE_CHANNELS_MAX 64	      /* the lane and 63 bulk channels: one word is a mask */
#define CORE_SMALL_BYTES (16u << 10)  /* greatest eager SEND; up to here the lane carries it */
#define CORE_PIECES_MAX 1000	      /* pieces of one chunk */
#define CORE_REQUEST_BYTES (1u << 30) /* one piece of a READ's list */
#define CORE_FILLED_CHUNKS 4u	      /* staged sources: on the way on one channel */
#define CORE_QUANTUM_BYTES (4u << 20) /* of one transfer before the next one's turn */
#define CORE_GRANT_BYTES (4u << 20)   /* staging is granted so much at once, while some is left */
#define CORE_REF_BYTES (16u << 20)    /* a chunk that goes by reference */
#define CORE_REF_MOST (128u << 20)    /* one to a peer who takes it: a copy begins slowly */
#define CORE_REF_QUANTUM 8u	      /* of them, as CORE_QUANTUM_BYTES */
#define CORE_REF_WINDOW                                                                            \
	(512u << 20)		   /* of them, sent and not acknowledged: a cancel waits for them */
#define CORE_FILL_BYTES (4u << 20) /* most of a source that is filled as one */
#define CORE_PIGGYBACK_BYTES 4096  /* greatest notification that leaves with its WRITE */
#define CORE_NOTE_COST 128	   /* budget bytes of a notification beyond its payload */
#define CORE_COVER_AHEAD 8u	   /* shares that a wish goes beyond what waits */

/* What a push is made of. */
enum core_job_kind {
	CORE_JOB_WRITE = 1, /* DATA frames of a core_xfer */
	CORE_JOB_REQUEST,   /* READ_REQ frames of a core_xfer */
	CORE_JOB_SEND,	    /* SEND or RTS, then SDATA frames of a core_xfer */
	CORE_JOB_PUSH,	    /* RDATA frames of a core_push */
	CORE_JOB_NOTE,	    /* NOTIFY frames of a core_note */
};

/* Something that is cut into frames. Embedded in a transfer, a push or a note. */
struct core_job {
	struct list_node node; /* in one of the link's queues */
	enum core_job_kind kind;
	bool queued, small, stopped;
	bool announced;	     /* SEND: its SEND or RTS is on the way */
	bool staged;	     /* destination is staged: needs grants */
	bool fills;	     /* source is staged: only what is ready is cut */
	enum core_path path; /* of another one than the stream the source is read until the peer has
			      * acknowledged the chunk */
	bool by_lane;	     /* the lane carries it, whatever its size */
	bool stuck;	     /* one of them has ended a channel */
	bool cleared;	     /* SEND: the receiver has taken it, and its CTS came */
	int32_t priority;
	const struct core_prog *prog; /* NULL for notes */
	struct core_cursor at;
	uint64_t linear, end;	/* next byte to cut; where to stop */
	uint64_t peer_xfer;	/* PUSH, SEND: the receiver's id */
	uint64_t linear_base;	/* PUSH: linear offset of the request's piece */
	struct core_redo *redo; /* before anything new */
	uint32_t inflight;	/* frames in channels' rings */
	uint32_t lent;		/* of them chunks by reference, or messages: the source is in use */
	uint64_t quantum;
	uint64_t acked;		     /* bytes */
	struct core_fill_state fill; /* if it fills */
};

#endif
