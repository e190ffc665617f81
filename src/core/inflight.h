/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a channel that were sent and not acknowledged: a ring, indexed by sequence. What an
 * acknowledgement, a refusal or a loss means for the requests is decided in chunk.c.
 *
 * Invariants
 *   acked_seq < next_seq <= acked_seq + 1 + CORE_RING
 *   acked_seq <= taken_seq while the channel is up
 *   filled_bytes is the sum of the bytes of all chunks in the ring with `filled` set
 *   messages is the number of chunks in the ring with the path MESSAGE
 */
#ifndef CORE_INFLIGHT_H
#define CORE_INFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/path.h"
#include "core/segs.h"
#include "core/rxseq.h"

/* a frame asks for an acknowledgement if this many payload bytes, its own included, were sent since
 * the last frame that asked */
#define CORE_ACK_BYTES (8u << 20)

struct core_ctl;
struct core_job;

/* A sent frame that is not acknowledged. */
struct core_chunk {
	struct core_job *job; /* NULL: it was not cut from a job, or the job has ended */
	struct core_ctl *ctl; /* the control frame, kept to be sent again; or NULL */
	struct core_cursor at;
	uint64_t linear;
	uint32_t bytes;
	uint8_t type;
	/* refused: the peer refused the chunk; aborted: it was sent with wrong bytes; staged: its
	 * destination is staged */
	bool refused, aborted, staged;
	/* The path of the payload. REFERENCE: the chunk counts in link->ref_bytes; MESSAGE: it
	 * counts in core_inflight.messages. Becomes STREAM when the chunk no longer counts. */
	enum core_path path;
	bool filled; /* counts in filled_bytes: its source is staged, its job not small */
	/* the chunk is a whole WRITE, whose notification may leave as the next frame */
	bool piggyback;
	/* core_tx_unread(): the buffers that the frame lent to the peer were taken back before the
	 * peer read them. If the chunk is acknowledged, its job queues it again. */
	bool unread;
};

/* A chunk of a lost channel that must be sent again. */
struct core_retransmit {
	struct core_retransmit *next;
	struct core_cursor at;
	uint64_t linear;
	uint32_t bytes;
};

struct core_inflight {
	uint64_t next_seq, acked_seq; /* next sequence to give, from 1 on; last acknowledged one */
	uint64_t asked_seq;	      /* highest sequence that asked for an acknowledgement */
	uint64_t unasked_bytes;	      /* payload bytes sent after the frame asked_seq */
	/* ring of CORE_RING entries, indexed by sequence % CORE_RING; the caller allocates it */
	struct core_chunk *chunks;
	/* the peer has taken the frames up to this one out of the transport, applied or not */
	uint64_t taken_seq;
	uint64_t filled_bytes; /* bytes of chunks marked `filled`: not yet taken by the peer */
	uint32_t messages;     /* messages of a plugin, sent and not acknowledged */
	/* the acknowledgement of a frame is needed, and neither this frame nor a later one has
	 * asked for it */
	bool ack_needed;
};

/* Empties the ring for a new epoch of the channel. Keeps the memory of the ring. */
void core_inflight_open(struct core_inflight *inflight);

static inline struct core_chunk *core_inflight_at(const struct core_inflight *inflight,
						  uint64_t seq)
{
	return &inflight->chunks[seq % CORE_RING];
}

static inline uint64_t core_inflight_count(const struct core_inflight *inflight)
{
	return inflight->next_seq - 1 - inflight->acked_seq;
}

/* Whether the newest frame must ask for an acknowledgement. It must if CORE_ACK_BYTES of payload
 * were sent after the last frame that asked. It also must if the unacknowledged frames that were
 * sent after that frame fill a quarter of the ring. */
static inline bool core_inflight_must_ask(const struct core_inflight *inflight)
{
	uint64_t asked = inflight->asked_seq > inflight->acked_seq ? inflight->asked_seq
								   : inflight->acked_seq;

	return inflight->unasked_bytes >= CORE_ACK_BYTES ||
	       inflight->next_seq - 1 - asked >= CORE_RING / 4;
}

/* Records that the newest frame asks for an acknowledgement of itself and of all before it. */
static inline void core_inflight_ask(struct core_inflight *inflight)
{
	inflight->asked_seq = inflight->next_seq - 1;
	inflight->unasked_bytes = 0;
	inflight->ack_needed = false;
}

/* Called when the peer has taken the frames up to `seq` out of the transport. Their bytes no longer
 * count in filled_bytes. */
void core_inflight_taken(struct core_inflight *inflight, uint64_t seq);

#endif
