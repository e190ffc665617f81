/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a channel of messages: what waits on its receiving side, and what was taken. */
#ifndef PLUGIN_MESSAGES_PRIV_H
#define PLUGIN_MESSAGES_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/frame.h"
#include "plugin/messages.h"
#include "plugin/messages_pool.h"

#define WAITING 64u	  /* frames that wait for those before them */
#define GUIDE_BYTES 4096u /* read of the guide at once */

/* A frame with a sequence that was not given out yet. */
struct waiting {
	uint8_t header[FRAME_HEADER_BYTES];
	uint64_t seq, number; /* number: of the comm, once posted */
	uint64_t pages;	      /* of the pool that its receive may take */
	uint32_t bytes, slot; /* of its message; 0: it has none */
	bool posted, done, nack;
};

/* A message that is taken, and whose frame was given out. */
struct taken {
	uint64_t seq, number;
	struct base_frag whole; /* where it lies, with net_messages_opts.whole */
	bool given;		/* back */
};

/* A message that was sent: the frame that it is the payload of. */
struct sent {
	uint64_t seq, linear;
	uint32_t bytes;
	uint8_t type;
};

/* net_message_counts, as other threads see them. */
struct message_counts {
	_Atomic uint64_t sends_posted, sends_done, posted, done, unpacked, consumed;
};

/* What recv gives out next, of the first frame that waits. */
enum part { PART_HEADER = 0, PART_PAYLOAD, PART_TRAILER };

struct messages {
	struct net_chan chan;
	struct net_messages_opts o;
	struct messages_pool_user pool; /* where messages come in pieces */
	tcpx_status ended;		/* of the guide: what comes behind all that waits */
	tcpx_status failed;		/* sticky */
	uint8_t guide[GUIDE_BYTES];
	uint32_t have;
	struct waiting waiting[WAITING];     /* a ring */
	uint32_t first, count, messages;     /* messages: of them with one */
	uint32_t nacks;			     /* of them: no ACK passes a refusal that it covers */
	uint32_t next_slot, posted;	     /* below the window; posted: not done */
	struct taken taken[NET_COMM_WINDOW]; /* a ring, by number */
	uint64_t takes, gives;		 /* messages in pieces that were given out; and consumed */
	uint8_t ack[FRAME_HEADER_BYTES]; /* the latest: it says all that those before it said */
	bool acked, in_ack;
	enum part part;
	uint32_t at; /* bytes of the part, or of the ACK, that were given out */
	uint8_t trailer[FRAME_TRAILER_BYTES];
	uint32_t sending;		   /* messages that the plugin has not ended */
	_Atomic int64_t put_off_ns;	   /* since when it takes none; 0: it does */
	int64_t came_ns;		   /* since when the oldest receive is waited for */
	_Atomic int64_t sent_ns;	   /* the same of the oldest send; 0: none is under way */
	struct sent sent[NET_COMM_WINDOW]; /* a ring, by number */
	struct message_counts counts;	   /* the driver counts */
};

static inline void message_counted(_Atomic uint64_t *count)
{
	uint64_t before = atomic_load_explicit(count, memory_order_relaxed);

	atomic_store_explicit(count, before + 1, memory_order_relaxed);
}

/* Its payloads are no bytes of the stream. */
static inline bool messages_taken(const struct messages *m)
{
	return !m->o.bounce || m->o.whole;
}

static inline struct waiting *waiting_at(struct messages *m, uint32_t i)
{
	return &m->waiting[(m->first + i) % WAITING];
}

/* messages_in.c: all that can move moves. */
tcpx_status messages_move(struct messages *m);
/* The bytes that come next in the stream; 0: they are not there yet. */
uint32_t messages_next(struct messages *m, const uint8_t **out_bytes);
/* So many of them were given out. */
tcpx_status messages_given(struct messages *m, uint32_t bytes);
/* Some are there. */
bool messages_ready(const struct messages *m);

#endif
