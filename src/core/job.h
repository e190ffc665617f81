/* SPDX-License-Identifier: Apache-2.0 */
/* A job: a piece of work that is cut into frames; and the limits for what is cut. */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/fill.h"
#include "core/path.h"
#include "core/segs.h"

struct core_retransmit;

/* the priority channel: for small jobs, and for those marked by_prio */
#define CORE_PRIO 0
/* the priority channel and 63 bulk ones, so that a mask of channels has 64 bits */
#define CORE_CHANNELS_MAX 64
#define CORE_SMALL_BYTES (16u << 10)  /* largest eager SEND; largest small job by default */
#define CORE_PIECES_MAX 1000	      /* most pieces (parts of segments) of one chunk */
#define CORE_REQUEST_BYTES (1u << 30) /* most bytes that one READ_REQ frame asks for */
/* so many chunks of staged sources may be in flight on one channel, or two of the largest ones */
#define CORE_FILLED_CHUNKS 4u
#define CORE_QUANTUM_BYTES (4u << 20) /* bytes cut of one job before it is the next job's turn */
/* least staging that is taken from the pool at once, unless less is wanted or the taker has less
 * than a chunk left */
#define CORE_GRANT_BYTES (4u << 20)
/* largest chunk by reference, unless the peer accepts larger ones */
#define CORE_REF_BYTES (16u << 20)
/* largest chunk by reference, whatever the peer accepts: the copy of a larger one would begin
 * late */
#define CORE_REF_MOST (128u << 20)
/* chunks by reference that are cut of one job before it is the next job's turn */
#define CORE_REF_QUANTUM 8u
/* most bytes by reference in flight on a link; a cancelled transfer waits for all of its own */
#define CORE_REF_WINDOW (512u << 20)
#define CORE_FIRST_CHUNK (128u << 10) /* smallest first chunk of a staged source */
#define CORE_FILL_BYTES (4u << 20)    /* bytes of a staged source that one copy fills */
#define CORE_PIGGYBACK_BYTES 4096     /* largest notification that leaves with its WRITE */
/* what a notification costs of the budget beyond its payload */
#define CORE_NOTE_COST 128
/* a request for cover asks for up to this many times the first window more than is needed now */
#define CORE_COVER_AHEAD 8u

/* What a job is part of, and the frames that it is cut into. */
enum core_job_kind {
	CORE_JOB_WRITE = 1, /* DATA frames of a core_xfer */
	CORE_JOB_REQUEST,   /* READ_REQ frames of a core_xfer */
	CORE_JOB_SEND,	    /* SEND or RTS, then SDATA frames of a core_xfer */
	CORE_JOB_RESP,	    /* RDATA frames of a core_resp */
	CORE_JOB_NOTE,	    /* NOTIFY frames of a core_note */
};

/* Embedded in a transfer, a read response or a note. */
struct core_job {
	struct list_node node; /* in one of the lists of core_sendq */
	enum core_job_kind kind;
	/* queued: in a list of core_sendq; small: goes by the priority channel; stopped: nothing
	 * more is cut, because the transfer or read response is ending */
	bool queued, small, stopped;
	bool announced; /* SEND: its SEND or RTS frame was cut; NOTE: a frame of it was cut */
	bool staged;	/* the destination is staged: chunks wait for grants */
	bool fills;	/* the source is staged: only bytes that are filled are cut */
	/* how its chunks go; if not STREAM, the source is read until the peer has acknowledged
	 * the chunk */
	enum core_path path;
	bool by_prio; /* it goes by the priority channel, whatever its size */
	bool stalled; /* a channel ended because a plugin did not send a message of this job */
	bool cleared; /* SEND: the peer answered with CTS, so its RECV is known */
	int32_t priority;
	const struct core_segs *segs; /* NULL for notes */
	struct core_cursor at;
	uint64_t linear, end; /* next byte to cut; where cutting stops */
	/* number of the peer's request in frames; PUSH: its READ; SEND: its RECV */
	uint64_t peer_xfer;
	/* PUSH: where the requested piece begins within the READ */
	uint64_t linear_base;
	struct core_retransmit *retransmit; /* chunks of a lost channel, sent before anything new */
	uint32_t inflight;		    /* frames in the channels' rings */
	/* how many of these frames are chunks whose source the peer or a plugin may still read */
	uint32_t reading;
	uint64_t quantum;	     /* bytes cut in the job's present turn */
	uint64_t acked;		     /* bytes that the peer has acknowledged */
	struct core_fill_state fill; /* used if `fills` */
};

#endif
