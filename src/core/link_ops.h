/* SPDX-License-Identifier: Apache-2.0 */
/* What the owner of a link gives it: functions for its effects, and its limits. */
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
	void (*ended)(void *arg, struct core_xfer *xfer); /* xfer->status is final */
	void (*push_ended)(void *arg, struct core_push *push);
	/* The channel had nothing to send and was idle; now it has something. */
	void (*kick)(void *arg, uint32_t channel);
	/* The peer fenced a channel that is still up here: close it and call core_chan_lost. */
	void (*close_channel)(void *arg, uint32_t channel);
	/* Send a FENCE on the control link; its payload is the nacks as pairs. */
	void (*fence)(void *arg, uint32_t channel, uint32_t epoch, uint64_t applied,
		      const struct core_nack *nacks, uint32_t count);
	/* Both fences are exchanged: the channel may be dialled again with a higher epoch. */
	void (*channel_free)(void *arg, uint32_t channel);
	/* A notification is complete. It belongs to the callee, which frees it by
	 * note_free(msg->there). */
	void (*notify)(void *arg, struct core_notify_in *msg);
	/* The peer has taken a notification that no request waits for (flush). */
	void (*note_ended)(void *arg);
	/* Copies an eager SEND into a RECV. TCPX_IN_PROGRESS if the copy ends later, with
	 * core_recv_applied; else TCPX_OK or an error. */
	tcpx_status (*deliver)(void *arg, struct core_xfer *xfer, const void *data, uint64_t bytes);
	/* Takes staging for arriving bytes from the shared pool: at most `want` bytes, but none
	 * if fewer than `least` are free. Returns how many. After less than `want`,
	 * core_stage_waits() is true, and core_stage_more() is to be called when more is free. */
	uint64_t (*stage_take)(void *arg, uint64_t want, uint64_t least);
	/* How many of `want` bytes of the pool the peer may keep without a request while the link
	 * lives. */
	uint64_t (*stage_ahead)(void *arg, uint64_t want);
	void (*stage_give)(void *arg, uint64_t bytes);
	/* core_fill_next() has a new answer. */
	void (*fill)(void *arg);
	/* Bytes of the job that are filled or being filled, and not cut, will never be cut. */
	void (*fill_drop)(void *arg, struct core_job *job);
	void *(*alloc)(void *arg, size_t bytes); /* NULL: no memory, or over budget */
	void (*free)(void *arg, void *ptr, size_t bytes);
	/* Memory for an arriving notification. It is within the grants, so no budget is checked.
	 * `there` bytes are charged to the account now, more by note_grew(); note_free() returns
	 * all of them. */
	void *(*note_alloc)(void *arg, size_t bytes, size_t there);
	void (*note_grew)(void *arg, size_t more);
	void (*note_free)(void *arg, void *ptr, size_t there);
	/* Sets aside `want` bytes of the account for the peer's notifications, or `least`, or none.
	 * After less than `want`, core_note_more is to be called when there may be more. */
	uint64_t (*note_take)(void *arg, uint64_t want, uint64_t least);
	void (*note_give)(void *arg, uint64_t bytes);
	/* The link cannot go on (memory, protocol): core_link_fail is to be called later. */
	void (*fail)(void *arg, tcpx_status status);
};

struct core_config {
	uint32_t chunk_bytes;
	uint32_t filled_chunk_bytes; /* largest chunk of a staged source; 0: chunk_bytes */
	uint32_t bulk_channels;
	/* how many of the bulk channels, the last ones, carry messages of a plugin and nothing
	 * else */
	uint32_t message_channels;
	uint32_t message_bytes;	 /* largest message of a plugin; 0: chunk_bytes */
	uint32_t message_window; /* messages in flight on one channel */
	uint32_t small_bytes;	 /* largest small job; 0: CORE_SMALL_BYTES */
	/* largest chunk by reference before core_link_refs(); 0: CORE_REF_BYTES */
	uint32_t ref_chunk;
	uint32_t ref_window; /* bytes by reference in flight; 0: CORE_REF_WINDOW */
	uint8_t secret[16];  /* a number the peer cannot know */
	uint64_t credit_out[FRAME_CREDIT_COUNT]; /* first windows of the peer's hello */
	uint64_t credit_in[FRAME_CREDIT_COUNT];	 /* first windows of our hello */
	/* The part of the notification budget that has cover from the start; 0: all of it. */
	uint64_t cover_out, cover_in;
	const struct core_ops *ops;
	void *arg;
};

#endif
