/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine (or a test) gives a link: functions for the link's effects, and its limits. */
#ifndef CORE_LINK_OPS_H
#define CORE_LINK_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/frame.h"
#include "core/rxseq.h"
#include "core/xfer.h"
#include <tcpx/types.h>

struct core_notify_in;

/* The effects. They are called under the link's lock and must not call the core. */
struct core_ops {
	void (*ended)(void *arg, struct core_xfer *xfer);      /* xfer->status is final */
	void (*resp_ended)(void *arg, struct core_resp *resp); /* the callee frees read response */
	/* The channel was idle and now has something to send, or its sender is to take back the
	 * buffers of a frame that was aborted. */
	void (*kick)(void *arg, uint32_t channel);
	/* The peer fenced a channel that is still up here: it must be closed, and
	 * core_chan_lost() to be called later. */
	void (*close_channel)(void *arg, uint32_t channel);
	/* Sends a FENCE on the control link: `applied`, and as payload the sequences and statuses
	 * of `nacks`. */
	void (*fence)(void *arg, uint32_t channel, uint32_t epoch, uint64_t applied,
		      const struct core_nack *nacks, uint32_t count);
	/* Both fences are exchanged: the channel may be dialled again with a higher epoch. */
	void (*channel_free)(void *arg, uint32_t channel);
	/* A notification is complete and may be read. It belongs to the callee, which frees it by
	 * note_free() with msg->there. */
	void (*notify)(void *arg, struct core_notify_in *msg);
	/* The peer has taken a notification that no request waits for; a flush may wait for it. */
	void (*note_ended)(void *arg);
	/* Copies an eager SEND into a RECV. TCPX_IN_PROGRESS if the copy ends later, with
	 * core_recv_applied; else TCPX_OK or an error. */
	tcpx_status (*deliver)(void *arg, struct core_xfer *xfer, const void *data, uint64_t bytes);
	/* Takes staging for arriving bytes from the shared pool: at most `want` bytes, but none
	 * if fewer than `least` are free. Returns how many. After less than `want`,
	 * core_stage_waits() is true, and core_stage_more() must be called when more is free. */
	uint64_t (*stage_take)(void *arg, uint64_t want, uint64_t least);
	/* How many bytes of the pool, at most `want`, the peer may be granted without a request as
	 * long as the link lives. */
	uint64_t (*stage_ahead)(void *arg, uint64_t want);
	/* Gives staging back to the pool. */
	void (*stage_give)(void *arg, uint64_t bytes);
	/* core_fill_next() may have a new answer. */
	void (*fill)(void *arg);
	/* Drops the job's bytes that are filled or being filled and were not cut. If they are still
	 * needed, they are filled again. */
	void (*fill_drop)(void *arg, struct core_job *job);
	void *(*alloc)(void *arg, size_t bytes); /* NULL: no memory, or over budget */
	void (*free)(void *arg, void *ptr, size_t bytes);
	/* Memory for an arriving notification. The peer was granted cover for it, so no budget is
	 * checked. `there` bytes are charged to the account now, more by note_grew(); note_free()
	 * returns all of them. */
	void *(*note_alloc)(void *arg, size_t bytes, size_t there);
	void (*note_grew)(void *arg, size_t more);
	void (*note_free)(void *arg, void *ptr, size_t there);
	/* Sets aside `want` bytes of the account for the peer's notifications, or `least`, or none;
	 * returns how many. After less than `want`, core_note_more() must be called when there may
	 * be more. */
	uint64_t (*note_take)(void *arg, uint64_t want, uint64_t least);
	/* Returns to the account what note_take() set aside. */
	void (*note_give)(void *arg, uint64_t bytes);
	/* The link cannot go on (memory, protocol): core_link_fail must be called later. */
	void (*fail)(void *arg, tcpx_status status);
};

struct core_config {
	uint32_t chunk_bytes;	     /* size of a chunk, if its path sets no other */
	uint32_t filled_chunk_bytes; /* largest chunk of a staged source; 0: chunk_bytes */
	/* number of bulk channels; the priority channel is not one of them */
	uint32_t bulk_channels;
	/* how many of the bulk channels carry messages of a plugin and nothing else: the last
	 * ones */
	uint32_t message_channels;
	uint32_t message_bytes;	 /* largest message of a plugin; 0: chunk_bytes */
	uint32_t message_window; /* most messages in flight on one channel */
	uint32_t small_bytes;	 /* largest small job; 0: CORE_SMALL_BYTES */
	/* largest chunk by reference before core_link_refs(); 0: CORE_REF_BYTES */
	uint32_t ref_chunk;
	uint32_t ref_window; /* most bytes by reference in flight; 0: CORE_REF_WINDOW */
	uint8_t secret[16];  /* a number the peer cannot know */
	uint64_t credit_out[FRAME_CREDIT_COUNT]; /* first windows of the peer's hello */
	uint64_t credit_in[FRAME_CREDIT_COUNT];	 /* first windows of our hello */
	/* the first windows of cover, out: for us, in: for the peer; 0: the whole notification
	 * budget */
	uint64_t cover_out, cover_in;
	const struct core_ops *ops;
	void *arg;
};

#endif
