/* SPDX-License-Identifier: Apache-2.0 */
/* A job: what is cut into frames, and the sizes that it is cut in. */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/fill.h"
#include "core/path.h"
#include "core/prog.h"

struct core_retransmit;

#define CORE_LANE 0		     /* the priority channel: small jobs, and those by_lane */
#define CORE_CHANNELS_MAX 64	     /* the priority channel and 63 bulk ones: a mask is one word */
#define CORE_SMALL_BYTES (16u << 10) /* largest eager SEND; largest small job by default */
#define CORE_PIECES_MAX 1000	     /* pieces of one chunk */
#define CORE_REQUEST_BYTES (1u << 30) /* of a READ's list in one READ_REQ */
#define CORE_FILLED_CHUNKS 4u	      /* of staged sources: in flight on one channel */
#define CORE_QUANTUM_BYTES (4u << 20) /* cut of one job before the next one's turn */
#define CORE_GRANT_BYTES (4u << 20)   /* least staging that is granted while some is left */
#define CORE_REF_BYTES (16u << 20)    /* a chunk by reference, unless the peer takes larger ones */
#define CORE_REF_MOST (128u << 20)    /* the largest: a copy takes long to begin */
#define CORE_REF_QUANTUM 8u	      /* chunks by reference, as CORE_QUANTUM_BYTES */
#define CORE_REF_WINDOW (512u << 20)  /* bytes by reference in flight; a cancel waits for them */
#define CORE_FIRST_CHUNK (128u << 10) /* smallest first chunk of a staged source */
#define CORE_FILL_BYTES (4u << 20)    /* of a staged source that are filled at once */
#define CORE_PIGGYBACK_BYTES 4096     /* largest notification that leaves with its WRITE */
#define CORE_NOTE_COST 128	      /* of the budget, for a notification beyond its payload */
#define CORE_COVER_AHEAD 8u	      /* first windows that a request for cover goes ahead */

/* What a job is made of. */
enum core_job_kind {
	CORE_JOB_WRITE = 1, /* DATA frames of a core_xfer */
	CORE_JOB_REQUEST,   /* READ_REQ frames of a core_xfer */
	CORE_JOB_SEND,	    /* SEND or RTS, then SDATA frames of a core_xfer */
	CORE_JOB_PUSH,	    /* RDATA frames of a core_push */
	CORE_JOB_NOTE,	    /* NOTIFY frames of a core_note */
};

/* Embedded in a transfer, a push or a note. */
struct core_job {
	struct list_node node; /* in one of the lists of core_sendq */
	enum core_job_kind kind;
	bool queued, small, stopped;
	bool announced;	     /* SEND: its SEND or RTS is in flight or arrived */
	bool staged;	     /* the destination is staged: chunks need grants */
	bool fills;	     /* the source is staged: only what is filled is cut */
	enum core_path path; /* if not STREAM, the source is read until the peer has acknowledged
			      * the chunk */
	bool by_lane;	     /* goes by the priority channel, whatever its size */
	bool stalled;	     /* a message of it has ended a channel */
	bool cleared;	     /* SEND: its CTS came, so the receiver has matched it */
	int32_t priority;
	const struct core_prog *prog; /* NULL for notes */
	struct core_cursor at;
	uint64_t linear, end;		    /* next byte to cut; where to stop */
	uint64_t peer_xfer;		    /* PUSH, SEND: the receiver's id */
	uint64_t linear_base;		    /* PUSH: where the request's piece begins in the READ */
	struct core_retransmit *retransmit; /* chunks that go before anything new */
	uint32_t inflight;		    /* frames in the channels' rings */
	uint32_t reading;		    /* of them, by another path: the source is being read */
	uint64_t quantum;		    /* bytes cut in this turn */
	uint64_t acked;			    /* bytes */
	struct core_fill_state fill;	    /* if it fills */
};

#endif
