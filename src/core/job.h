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

/* the priority channel: for small jobs, and for those marked by_lane */
#define CORE_LANE 0
#define CORE_CHANNELS_MAX 64	     /* the priority channel and 63 bulk ones: a mask is one word */
#define CORE_SMALL_BYTES (16u << 10) /* largest eager SEND; largest small job by default */
#define CORE_PIECES_MAX 1000	     /* pieces of one chunk */
#define CORE_REQUEST_BYTES (1u << 30) /* of a READ's list, requested in one READ_REQ */
/* chunks of staged sources that are in flight on one channel */
#define CORE_FILLED_CHUNKS 4u
#define CORE_QUANTUM_BYTES (4u << 20) /* cut of one job before it is the next one's turn */
#define CORE_GRANT_BYTES (4u << 20)   /* smallest grant, while more than that is free */
#define CORE_REF_BYTES (16u << 20)    /* chunk by reference, unless the peer takes larger ones */
/* largest chunk by reference: a copy of more would begin late */
#define CORE_REF_MOST (128u << 20)
#define CORE_REF_QUANTUM 8u /* as CORE_QUANTUM_BYTES, but chunks by reference */
/* bytes by reference in flight on a link; a cancel waits for all of them */
#define CORE_REF_WINDOW (512u << 20)
#define CORE_FIRST_CHUNK (128u << 10) /* smallest first chunk of a staged source */
#define CORE_FILL_BYTES (4u << 20)    /* bytes of a staged source that one copy fills */
#define CORE_PIGGYBACK_BYTES 4096     /* largest notification that leaves with its WRITE */
/* what a notification costs of the budget beyond its payload */
#define CORE_NOTE_COST 128
/* a request for cover asks for up to this many first windows more than needed */
#define CORE_COVER_AHEAD 8u

/* What a job is part of, and the frames that it is cut into. */
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
	bool staged;	     /* the destination is staged: chunks wait for grants */
	bool fills;	     /* the source is staged: only bytes that are filled are cut */
	enum core_path path; /* if not STREAM, the source is read until the peer has acknowledged
			      * the chunk */
	bool by_lane;	     /* goes by the priority channel, whatever its size */
	bool stalled;	     /* a plugin did not send one of its messages, which ended a channel */
	bool cleared;	     /* SEND: the peer answered with CTS, so its RECV is known */
	int32_t priority;
	const struct core_prog *prog; /* NULL for notes */
	struct core_cursor at;
	uint64_t linear, end; /* next byte to cut; where cutting stops */
	uint64_t peer_xfer;   /* PUSH, SEND: the peer's number for the request */
	/* PUSH: where the requested piece begins within the READ */
	uint64_t linear_base;
	struct core_retransmit *retransmit; /* chunks of a lost channel, sent before anything new */
	uint32_t inflight;		    /* frames in the channels' rings */
	/* of these chunks, those whose source the peer or a plugin may still read */
	uint32_t reading;
	uint64_t quantum;	     /* bytes cut since it was the job's turn */
	uint64_t acked;		     /* bytes that the peer has acknowledged */
	struct core_fill_state fill; /* used if `fills` */
};

#endif
