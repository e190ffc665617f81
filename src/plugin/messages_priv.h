/* SPDX-License-Identifier: Apache-2.0 */
/* The internals of a plugin channel: frames that wait for their message, and messages to take. */
#ifndef PLUGIN_MESSAGES_PRIV_H
#define PLUGIN_MESSAGES_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/frame.h"
#include "plugin/messages.h"
#include "plugin/messages_pool.h"

#define WAITING 64u	  /* most frames that wait for their message or for recv */
#define GUIDE_BYTES 4096u /* most bytes read from the guide at once */

/* A frame that arrived on the guide, is no ACK, and was not yet returned completely by recv. */
struct waiting {
	uint8_t header[FRAME_HEADER_BYTES];
	uint64_t seq, number; /* number: of its message, set when the receive is posted */
	/* pages of the page pool that are reserved for its receive; 0 without a page pool */
	uint64_t pages;
	/* bytes: size of its message, or 0 if it has none; slot: the part of `bounce` for the
	 * message */
	uint32_t bytes, slot;
	bool posted, done, nack;
};

/* A message that the user may take, because recv has returned its frame. */
struct taken {
	uint64_t seq, number;
	struct base_frag whole; /* the message as one fragment, if net_messages_opts.whole is set */
	bool given;		/* the user has given the message back */
};

/* The frame of a message that was sent, for error texts. */
struct sent {
	uint64_t seq, linear;
	uint32_t bytes;
	uint8_t type;
};

/* The counts of net_message_counts. Written by the thread that drives the comms, read by any
 * thread. */
struct message_counts {
	_Atomic uint64_t sends_posted, sends_done, posted, done, unpacked, consumed;
};

/* The part of the first waiting frame that recv returns next. */
enum part { PART_HEADER = 0, PART_PAYLOAD, PART_TRAILER };

struct messages {
	struct net_chan chan;
	struct net_messages_opts o;
	struct messages_pool_user pool; /* the channel as a user of the page pool, if it has one */
	/* The status with which the guide ended. recv returns it when no bytes are ready and no
	 * receive is posted. */
	tcpx_status ended;
	tcpx_status failed; /* first error; every later recv and post returns it */
	/* bytes read from the guide and not handled yet; `have` is their number */
	uint8_t guide[GUIDE_BYTES];
	uint32_t have;
	struct waiting waiting[WAITING]; /* circular; the oldest is waiting[first] */
	/* first: index of the oldest entry of `waiting`; count: entries in use; messages: number of
	 * messages that are announced and not consumed */
	uint32_t first, count, messages;
	uint32_t nacks; /* number of NACKs in `waiting`, which no ACK may overtake */
	/* next_slot: part of `bounce` for the next message; posted: receives that are not done */
	uint32_t next_slot, posted;
	struct taken taken[NET_COMM_WINDOW]; /* circular, indexed by `takes` and `gives` */
	uint64_t takes, gives;		     /* messages put into `taken`; those of them consumed */
	/* The latest ACK. ACKs are cumulative, so earlier ones are not needed. */
	uint8_t ack[FRAME_HEADER_BYTES];
	/* acked: recv has to return the ACK in `ack`; in_ack: recv has begun to return it */
	bool acked, in_ack;
	enum part part;
	uint32_t at; /* bytes of the part, or of the ACK, that recv has returned */
	uint8_t trailer[FRAME_TRAILER_BYTES];
	uint32_t sending; /* sends that are not done */
	/* since when the plugin has refused sends; 0 if it accepts them */
	_Atomic int64_t put_off_ns;
	/* time at which the oldest receive that is not done became the oldest */
	int64_t came_ns;
	/* time at which the oldest send that is not done became the oldest; 0 if all are done */
	_Atomic int64_t sent_ns;
	struct sent sent[NET_COMM_WINDOW]; /* circular, indexed by message number */
	struct message_counts counts;
};

/* Adds 1 to the count. Only one thread writes a count, so no atomic addition is needed. */
static inline void message_counted(_Atomic uint64_t *count)
{
	uint64_t before = atomic_load_explicit(count, memory_order_relaxed);

	atomic_store_explicit(count, before + 1, memory_order_relaxed);
}

/* Whether the user takes messages (net_message_ops.take) instead of reading their bytes from the
 * stream. */
static inline bool messages_taken(const struct messages *m)
{
	return !m->o.bounce || m->o.whole;
}

/* Returns the i-th waiting frame, from 0 for the oldest. If i is m->count, returns the next free
 * entry. */
static inline struct waiting *waiting_at(struct messages *m, uint32_t i)
{
	return &m->waiting[(m->first + i) % WAITING];
}

/* In messages_in.c. Reads the guide, posts receives and polls both comms. An error ends the
 * channel. */
tcpx_status messages_move(struct messages *m);
/* Returns how many bytes of the stream, in one span of memory, recv may return next, and sets
 * *out_bytes to their address. Returns 0 if there are none. */
uint32_t messages_next(struct messages *m, const uint8_t **out_bytes);
/* Reports that recv has returned `bytes` of the bytes that messages_next() gave. An error ends the
 * channel. */
tcpx_status messages_given(struct messages *m, uint32_t bytes);
/* Whether messages_next() would return more than 0. */
bool messages_ready(const struct messages *m);

#endif
