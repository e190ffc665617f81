/* SPDX-License-Identifier: Apache-2.0 */
/* A job, which is a piece of work that is cut into frames, and the limits that apply to cutting. */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/fill.h"
#include "core/path.h"
#include "core/segs.h"

struct core_retransmit;

/* index of the priority channel, which carries control frames, small jobs, SEND frames and RTS
 * frames */
#define CORE_PRIO 0
/* the priority channel and 63 bulk ones, so that a mask of channels has 64 bits */
#define CORE_CHANNELS_MAX 64
#define CORE_SMALL_BYTES (16u << 10)  /* largest eager SEND; also the default for small_bytes */
#define CORE_PIECES_MAX 1000	      /* most pieces (parts of segments) of one chunk */
#define CORE_REQUEST_BYTES (1u << 30) /* most bytes that one READ_REQ frame asks for */
/* the window for staged sources on a channel has room for at least this many chunks of
 * cfg.chunk_bytes bytes (core_filled_window) */
#define CORE_FILLED_CHUNKS 4u
/* bytes cut, or filled, of one job before the next job has its turn */
#define CORE_QUANTUM_BYTES (4u << 20)
/* Staging is taken from the pool in portions of at least this size, unless less is wanted or the
 * taker (the peer or a READ) has less than a chunk of staging left. */
#define CORE_GRANT_BYTES (4u << 20)
/* default of cfg.ref_chunk: the largest chunk by reference, unless the peer accepts larger ones */
#define CORE_REF_BYTES (16u << 20)
/* upper limit of a chunk by reference, whatever the peer accepts: the copy of a larger one would
 * begin late */
#define CORE_REF_MOST (128u << 20)
/* this many chunks of cfg.ref_chunk bytes are cut of one job by reference before the next job has
 * its turn */
#define CORE_REF_QUANTUM 8u
/* Default of cfg.ref_window. While this many bytes by reference are in flight on a link, only small
 * jobs cut more chunks by reference. A cancelled transfer waits until none of its own bytes by
 * reference are in flight. */
#define CORE_REF_WINDOW (512u << 20)
/* the first chunks of a job may be smaller than the others (core_chunk_bytes), but not smaller than
 * this */
#define CORE_FIRST_CHUNK (128u << 10)
#define CORE_FILL_BYTES (4u << 20) /* most bytes of a staged source that one copy fills */
#define CORE_PIGGYBACK_BYTES 4096  /* largest notification that leaves with its WRITE */
/* what a notification or a SEND costs of its budget in addition to its payload, in bytes */
#define CORE_NOTE_COST 128
/* A request for cover asks for what the queued notifications need, and for up to this many first
 * windows more. */
#define CORE_COVER_AHEAD 8u

/* What a job belongs to, and the frames that it is cut into. */
enum core_job_kind {
	CORE_JOB_WRITE = 1, /* DATA frames of a core_xfer */
	CORE_JOB_REQUEST,   /* READ_REQ frames of a core_xfer */
	CORE_JOB_SEND,	    /* a SEND frame, or an RTS and then SDATA frames, of a core_xfer */
	CORE_JOB_RESP,	    /* RDATA frames of a core_resp */
	CORE_JOB_NOTE,	    /* NOTIFY frames of a core_note */
};

/* Embedded in a transfer, a read response or a notification. */
struct core_job {
	struct list_node node; /* in one of the lists of core_sendq */
	enum core_job_kind kind;
	/* queued: in a list of core_sendq; small: for the priority channel; stopped: nothing more
	 * is cut, because the transfer or read response is ending */
	bool queued, small, stopped;
	bool announced; /* SEND: its SEND or RTS frame was cut; NOTE: a frame of it was cut */
	bool staged;	/* WRITE, SEND: the destination is staged, so chunks wait for grants */
	bool fills;	/* the source is staged: only bytes that are filled are cut */
	/* The path of the chunks; REQUEST: of the data that the peer sends back. If it is not
	 * STREAM, the source of a chunk may be read until the peer has acknowledged the chunk. */
	enum core_path path;
	bool by_prio; /* for the priority channel, whatever the job's size */
	bool alone;   /* no bulk channel had anything to send when the job began (core_job_begin) */
	bool stalled; /* a channel was closed because a plugin did not send a message of this job */
	bool cleared; /* SEND: the peer answered with CTS, so its RECV is known */
	int32_t priority;
	const struct core_segs *segs; /* NULL for notifications */
	struct core_cursor at;
	uint64_t linear, end; /* next byte to cut; byte at which cutting ends */
	/* id of the peer's request, as used in frames. RESP: the peer's READ; SEND: the peer's
	 * RECV. */
	uint64_t peer_xfer;
	/* RESP: offset of the requested piece within the READ */
	uint64_t linear_base;
	struct core_retransmit *retransmit; /* chunks of lost channels, sent before any new ones */
	uint32_t inflight;		    /* number of the job's frames in the channels' rings */
	/* how many of the `inflight` frames are chunks whose source the peer or a plugin may still
	 * read */
	uint32_t reading;
	uint64_t quantum;	     /* bytes cut in the job's present turn */
	uint64_t acked;		     /* bytes acknowledged, without refused and aborted chunks */
	struct core_fill_state fill; /* used if `fills` */
};

#endif
