/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine (or a test) gives to a link: functions for the link's effects, and limits. */
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
	/* Called when all bytes of the transfer are in place and only the peer's acknowledgement of
	 * its notification is missing. */
	void (*notifying)(void *arg, struct core_xfer *xfer);
	/* Called when the transfer has ended; xfer->status is final. */
	void (*ended)(void *arg, struct core_xfer *xfer);
	void (*resp_ended)(void *arg, struct core_resp *resp); /* the callee frees `resp` */
	/* Called when the channel was idle and may have something to send, or when its sender must
	 * take back the buffers of an aborted frame. */
	void (*kick)(void *arg, uint32_t channel);
	/* Called when the peer has fenced a channel that is still up on this side. The engine must
	 * close the channel and call core_chan_lost() later. */
	void (*close_channel)(void *arg, uint32_t channel);
	/* Sends a FENCE on the control link. Its payload is the sequences and statuses of
	 * `nacks`. */
	void (*fence)(void *arg, uint32_t channel, uint32_t epoch, uint64_t applied,
		      const struct core_nack *nacks, uint32_t count);
	/* Called when both fences are exchanged. The channel may be dialled again with a higher
	 * epoch. */
	void (*channel_free)(void *arg, uint32_t channel);
	/* Called when a notification is complete and may be read. It then belongs to the callee,
	 * which frees it as note_free(arg, msg, msg->there) does. */
	void (*notify)(void *arg, struct core_notify_in *msg);
	/* Called when a notification that no request waits for was acknowledged by the peer, or was
	 * dropped because its channel was lost. A flush may wait for this. */
	void (*note_ended)(void *arg);
	/* Copies an eager SEND into a RECV. Returns TCPX_OK, an error, or TCPX_IN_PROGRESS if the
	 * copy ends later. In the last case, core_recv_applied() must be called when it ends. */
	tcpx_status (*deliver)(void *arg, struct core_xfer *xfer, const void *data, uint64_t bytes);
	/* Takes staging for arriving bytes from the shared pool: at most `want` bytes, and none if
	 * fewer than `least` are free for this link. Returns the number of bytes taken. If that is
	 * less than `want`, core_stage_waits() becomes true, and core_stage_more() must be called
	 * when more is free. */
	uint64_t (*stage_take)(void *arg, uint64_t want, uint64_t least);
	/* Returns how many bytes of grants, at most `want`, the peer may keep without a request
	 * until the link ends. */
	uint64_t (*stage_ahead)(void *arg, uint64_t want);
	/* Gives staging back to the pool. */
	void (*stage_give)(void *arg, uint64_t bytes);
	/* Called when core_fill_next() may return something new. */
	void (*fill)(void *arg);
	/* Drops the bytes of the job that are filled or being filled and were not cut. Bytes that
	 * are still needed are filled again. */
	void (*fill_drop)(void *arg, struct core_job *job);
	/* Returns NULL if there is no memory or the budget is used up. */
	void *(*alloc)(void *arg, size_t bytes);
	void (*free)(void *arg, void *ptr, size_t bytes);
	/* Allocates memory for an arriving notification or for the hash table of such
	 * notifications. No budget is checked, since the memory was set aside when the peer was
	 * granted cover. Counts `there` bytes as in use. note_grew() adds to this count, and
	 * note_free() subtracts `there` bytes, which must be all that were added for `ptr`. */
	void *(*note_alloc)(void *arg, size_t bytes, size_t there);
	void (*note_grew)(void *arg, size_t more);
	void (*note_free)(void *arg, void *ptr, size_t there);
	/* Sets aside `want` bytes of the account for the peer's notifications, or only `least`, or
	 * none. Returns the number of bytes. If that is 0, core_note_more() must be called when
	 * there may be memory. */
	uint64_t (*note_take)(void *arg, uint64_t want, uint64_t least);
	/* Returns to the account what note_take() set aside. */
	void (*note_give)(void *arg, uint64_t bytes);
	/* Called when the link cannot go on, because of memory or the protocol. The engine must
	 * call core_link_fail() later. */
	void (*fail)(void *arg, tcpx_status status);
};

struct core_config {
	uint32_t chunk_bytes;	     /* size of a chunk; core_chunk_bytes() has the exceptions */
	uint32_t filled_chunk_bytes; /* largest chunk of a staged source; 0: chunk_bytes */
	/* number of bulk channels; the priority channel is not one of them */
	uint32_t bulk_channels;
	/* how many of the bulk channels carry only messages of a plugin; they have the highest
	 * indices */
	uint32_t message_channels;
	uint32_t message_bytes;	 /* largest message of a plugin; 0: chunk_bytes */
	uint32_t message_window; /* most messages in flight on one channel */
	uint32_t small_bytes;	 /* largest small job; 0: CORE_SMALL_BYTES */
	/* largest chunk by reference before core_link_refs(); 0: CORE_REF_BYTES */
	uint32_t ref_chunk;
	uint32_t ref_window; /* window for bytes by reference; 0: CORE_REF_WINDOW */
	uint8_t secret[16];  /* a number the peer cannot know */
	uint64_t credit_out[FRAME_CREDIT_COUNT]; /* initial credit in the peer's hello */
	uint64_t credit_in[FRAME_CREDIT_COUNT];	 /* initial credit in our hello */
	/* first windows of cover: `out` for us, `in` for the peer; 0 means the whole notification
	 * budget */
	uint64_t cover_out, cover_in;
	const struct core_ops *ops;
	void *arg;
};

#endif
