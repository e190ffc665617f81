/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sent frames of a channel that the peer has not acknowledged: a ring by sequence. The type
 * knows no link and no request: chunk.c says what an acknowledgement, a refusal or a loss means to
 * those.
 *
 * Invariants
 *   acked_seq < next_seq <= acked_seq + 1 + CORE_RING
 *   acked_seq <= taken_seq while the channel is up
 *   filled_bytes and messages are sums over the chunks of the ring that say so
 */
#ifndef CORE_INFLIGHT_H
#define CORE_INFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/path.h"
#include "core/segs.h"
#include "core/rxseq.h"

/* after so many bytes at most, a frame asks for an acknowledgement */
#define CORE_ACK_BYTES (8u << 20)

struct core_ctl;
struct core_job;

/* A sent frame that is not acknowledged. */
struct core_chunk {
	struct core_job *job; /* NULL: a control frame, or the job has ended */
	struct core_ctl *ctl; /* a control frame, kept to be sent again; or NULL */
	struct core_cursor at;
	uint64_t linear;
	uint32_t bytes, pieces;
	uint8_t type;
	/* refused: by the peer; aborted: sent with wrong bytes; staged: its destination is
	 * staged */
	bool refused, aborted, staged;
	/* how its payload goes; while this is REFERENCE, the chunk is counted in link->ref_bytes;
	 * MESSAGE: in `messages` */
	enum core_path path;
	bool filled; /* its source was staged: counted in filled_bytes */
	/* it is all of a WRITE, and the notification of the WRITE is the next frame */
	bool piggyback;
	/* its source was taken away before the peer read it: sent again even if acknowledged */
	bool unread;
};

/* A chunk of a lost channel that must be sent again. */
struct core_retransmit {
	struct core_retransmit *next;
	struct core_cursor at;
	uint64_t linear;
	uint32_t bytes, pieces;
	uint8_t type;
};

struct core_inflight {
	uint64_t next_seq, acked_seq; /* sequences start at 1; acked is cumulative */
	uint64_t asked_seq;	      /* highest sequence that asked for an acknowledgement */
	uint64_t unasked_bytes;	      /* payload bytes sent after that frame */
	/* CORE_RING entries, by sequence; the memory is the caller's */
	struct core_chunk *chunks;
	/* the peer has taken the frames up to this one out of the transport, applied or not */
	uint64_t taken_seq;
	uint64_t filled_bytes; /* bytes of staged sources, sent and not taken */
	uint32_t messages;     /* messages of a plugin, sent and not acknowledged */
	/* somebody waits for the acknowledgement of a frame, and neither it nor a later one has
	 * asked for it */
	bool ack_needed;
};

/* Empties the ring for a new epoch of the channel. Its memory stays. */
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

/* Whether the last frame must ask for an acknowledgement because no frame among the last
 * CORE_ACK_BYTES of payload, or among the last quarter of a ring, has asked. */
static inline bool core_inflight_must_ask(const struct core_inflight *inflight)
{
	uint64_t asked = inflight->asked_seq > inflight->acked_seq ? inflight->asked_seq
								   : inflight->acked_seq;

	return inflight->unasked_bytes >= CORE_ACK_BYTES ||
	       inflight->next_seq - 1 - asked >= CORE_RING / 4;
}

/* Records that the last frame asks for an acknowledgement of itself and of all before it. */
static inline void core_inflight_ask(struct core_inflight *inflight)
{
	inflight->asked_seq = inflight->next_seq - 1;
	inflight->unasked_bytes = 0;
	inflight->ack_needed = false;
}

/* The peer has taken the frames up to `seq` out of the transport: their bytes no longer count in
 * filled_bytes. */
void core_inflight_taken(struct core_inflight *inflight, uint64_t seq);

#endif
