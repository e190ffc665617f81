/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a plugin channel: frames that wait for their message, and taken messages. */
#ifndef PLUGIN_MESSAGES_PRIV_H
#define PLUGIN_MESSAGES_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/frame.h"
#include "plugin/messages.h"
#include "plugin/messages_pool.h"

#define WAITING 64u	  /* most frames that wait, for their message or to be returned */
#define GUIDE_BYTES 4096u /* most bytes read from the guide at once */

/* A frame with a sequence number (all but ACKs) that arrived on the guide and that recv has not yet
 * returned completely. */
struct waiting {
	uint8_t header[FRAME_HEADER_BYTES];
	uint64_t seq, number; /* number: that of its message, set when the receive is posted */
	/* pages of the pool that are reserved for its receive, if there is a pool */
	uint64_t pages;
	/* size of its message, and part of `bounce` for it; bytes 0: it has none */
	uint32_t bytes, slot;
	bool posted, done, nack;
};

/* A message that the user may take, because recv has returned its frame. */
struct taken {
	uint64_t seq, number;
	struct base_frag whole; /* the message as one fragment, with net_messages_opts.whole */
	bool given;		/* the user has given the message back */
};

/* The frame of a message that was sent, for error texts. */
struct sent {
	uint64_t seq, linear;
	uint32_t bytes;
	uint8_t type;
};

/* The counts of net_message_counts, written by the thread that drives the comms and read by any. */
struct message_counts {
	_Atomic uint64_t sends_posted, sends_done, posted, done, unpacked, consumed;
};

/* The part of the first waiting frame that recv returns next. */
enum part { PART_HEADER = 0, PART_PAYLOAD, PART_TRAILER };

struct messages {
	struct net_chan chan;
	struct net_messages_opts o;
	struct messages_pool_user pool; /* for messages that arrive in fragments */
	/* why the guide ended; recv returns it when nothing else is left and no receive is
	 * posted */
	tcpx_status ended;
	tcpx_status failed; /* first error; every later call returns it */
	/* bytes read from the guide that are not interpreted yet, and their number */
	uint8_t guide[GUIDE_BYTES];
	uint32_t have;
	struct waiting waiting[WAITING]; /* a ring */
	/* first: index of the oldest entry of `waiting`; count: entries in use; messages: announced
	 * and not consumed */
	uint32_t first, count, messages;
	uint32_t nacks;		    /* NACKs in `waiting`, which no ACK may overtake */
	uint32_t next_slot, posted; /* next_slot: below window; posted: receives not done */
	struct taken taken[NET_COMM_WINDOW]; /* a ring */
	uint64_t takes, gives; /* entries of `taken` that were made, and that were consumed */
	/* the latest ACK; ACKs are cumulative, so the earlier ones are not needed */
	uint8_t ack[FRAME_HEADER_BYTES];
	/* acked: recv is to return the ACK in ack; in_ack: recv has begun to return it */
	bool acked, in_ack;
	enum part part;
	uint32_t at; /* bytes of the part, or of the ACK, that recv has returned */
	uint8_t trailer[FRAME_TRAILER_BYTES];
	uint32_t sending; /* sends that are not done */
	/* time since which the plugin refuses sends; 0: it does not */
	_Atomic int64_t put_off_ns;
	int64_t came_ns;	 /* time since which the oldest receive is awaited */
	_Atomic int64_t sent_ns; /* time since which the oldest send is not done; 0: none */
	struct sent sent[NET_COMM_WINDOW]; /* a ring, indexed by message number */
	struct message_counts counts;
};

/* Adds 1 to the count. Only one thread writes a count, so no atomic addition is needed. */
static inline void message_counted(_Atomic uint64_t *count)
{
	uint64_t before = atomic_load_explicit(count, memory_order_relaxed);

	atomic_store_explicit(count, before + 1, memory_order_relaxed);
}

/* Whether the user takes payloads instead of reading them from the stream. */
static inline bool messages_taken(const struct messages *m)
{
	return !m->o.bounce || m->o.whole;
}

/* The i-th waiting frame, 0 being the oldest; with i = count the next free entry. */
static inline struct waiting *waiting_at(struct messages *m, uint32_t i)
{
	return &m->waiting[(m->first + i) % WAITING];
}

/* messages_in.c: reads the guide, posts receives, polls both comms. Any status but OK ends the
 * channel. */
tcpx_status messages_move(struct messages *m);
/* Returns how many bytes of the stream recv may return next from one piece of memory, and sets
 * *out_bytes to their address; 0: none. */
uint32_t messages_next(struct messages *m, const uint8_t **out_bytes);
/* Reports that recv has returned that many of the bytes of messages_next. Any status but OK ends
 * the channel. */
tcpx_status messages_given(struct messages *m, uint32_t bytes);
/* Whether messages_next would return any bytes. */
bool messages_ready(const struct messages *m);

#endif
