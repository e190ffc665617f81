/* SPDX-License-Identifier: Apache-2.0 */
/* What a link is made with: its effects and its limits. */
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

/* Effects. Called under the link's lock; must not call the core. */
struct core_ops {
	void (*ended)(void *arg, struct core_xfer *xfer); /* xfer->status is final */
	void (*push_ended)(void *arg, struct core_push *push);
	/* Channel has something to send (it said idle before). */
	void (*kick)(void *arg, uint32_t channel);
	/* The peer fenced a channel that we still have up: close it and call core_chan_lost. */
	void (*close_channel)(void *arg, uint32_t channel);
	/* Send on the control link; FENCE only. The payload is nacks as pairs. */
	void (*fence)(void *arg, uint32_t channel, uint32_t epoch, uint64_t applied,
		      const struct core_nack *nacks, uint32_t count);
	/* Both fences are through: the channel may be dialled again with a higher epoch. */
	void (*channel_free)(void *arg, uint32_t channel);
	/* A whole notification; the callee owns it (free by note_free, with msg->there). */
	void (*notify)(void *arg, struct core_notify_in *msg);
	/* A notification nobody waits for was taken by the peer (flush). */
	void (*note_ended)(void *arg);
	/* Copies an eager message into a RECV: applied later (staged) returns IN_PROGRESS and ends
	 * by core_recv_applied; else TCPX_OK or an error. */
	tcpx_status (*deliver)(void *arg, struct core_xfer *xfer, const void *data, uint64_t bytes);
	/* Staging for bytes that arrive: takes at most want bytes of the shared pool for this link,
	 * but none if fewer than least are free, and returns how many. A link that got fewer
	 * than it wants waits (core_stage_waits): core_stage_more is called when there is more. */
	uint64_t (*stage_take)(void *arg, uint64_t want, uint64_t least);
	/* How much of want a peer that rests may have of the pool for as long as the link lives. */
	uint64_t (*stage_ahead)(void *arg, uint64_t want);
	void (*stage_give)(void *arg, uint64_t bytes);
	/* core_fill_next has something. */
	void (*fill)(void *arg);
	/* Nobody will cut what is filled of the job, or being filled, beyond what is cut. */
	void (*fill_drop)(void *arg, struct core_job *job);
	void *(*alloc)(void *arg, size_t bytes); /* NULL: out of memory or budget */
	void (*free)(void *arg, void *ptr, size_t bytes);
	/* Memory that what was granted covers, so the budget is not asked. `there` of it are
	 * charged now, more when they arrived; those are no more when it is freed. */
	void *(*note_alloc)(void *arg, size_t bytes, size_t there);
	void (*note_grew)(void *arg, size_t more);
	void (*note_free)(void *arg, void *ptr, size_t there);
	/* Sets aside want bytes of the account for the peer's notifications, or least, or none. One
	 * that got less than it wants is told by core_note_more when there may be more. */
	uint64_t (*note_take)(void *arg, uint64_t want, uint64_t least);
	void (*note_give)(void *arg, uint64_t bytes);
	/* The link cannot go on (memory, protocol). Ends it from outside. */
	void (*fail)(void *arg, tcpx_status status);
};

struct core_config {
	uint32_t chunk_bytes;
	uint32_t filled_chunk_bytes; /* most for staged sources; 0: chunk_bytes */
	uint32_t bulk_channels;
	uint32_t
		message_channels; /* of them the last ones, which carry messages and nothing else */
	uint32_t message_bytes;	  /* most of a message; 0: chunk_bytes */
	uint32_t message_window;  /* sent and not acknowledged, on one channel */
	uint32_t small_bytes;	  /* up to here the lane carries it; 0: CORE_SMALL_BYTES */
	uint32_t ref_chunk;	  /* until the peer says more; 0: CORE_REF_BYTES */
	uint32_t ref_window;	  /* 0: CORE_REF_WINDOW */
	uint8_t secret[16];	  /* a number the peer cannot know */
	uint64_t credit_out[FRAME_CREDIT_COUNT]; /* what the peer's hello gave us */
	uint64_t credit_in[FRAME_CREDIT_COUNT];	 /* what ours gave the peer */
	/* Of the budget of notifications what is granted from the first; 0: all of it. */
	uint64_t cover_out, cover_in;
	const struct core_ops *ops;
	void *arg;
};

#endif
