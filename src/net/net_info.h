/* SPDX-License-Identifier: Apache-2.0 */
/* Structs in which a transport reports on a channel: counters, loans, and messages in pieces. */
#ifndef NET_NET_INFO_H
#define NET_NET_INFO_H

#include <stddef.h>
#include <stdint.h>

#include "base/frag.h"

/* A received message of a plugin, in pieces (see net_message_ops.take). */
struct net_message {
	/* untrusted: the transport or the peer may change this memory at any time */
	const struct base_frag *frags;
	uint64_t nfrags;
	/* address and size of the GPU memory that contains the pieces */
	uint64_t pool, pool_bytes;
};

/* Counts of a channel's messages. Of the messages to be sent, `sends_posted` were posted to the
 * plugin and `sends_done` are done. Of the messages to be received, `posted` were posted to the
 * plugin, `done` have arrived, `unpacked` were copied to their destination and `consumed` were
 * given back to the plugin. */
struct net_message_counts {
	uint64_t sends_posted, sends_done;
	uint64_t posted, done, unpacked, consumed;
};

/* Facts about a channel; a field is 0 if the transport does not know it. Sums begin when the
 * channel is made, those of tcp when its socket is connected. */
struct net_chan_info {
	char congestion[16]; /* name of the congestion control; empty if unknown */
	uint64_t busy_ns, rwnd_limited_ns, sndbuf_limited_ns, retransmits, rtt_ns;
	/* bytes taken from the caller and not acknowledged yet; bytes acknowledged */
	uint64_t unacked_bytes, acked_bytes;
	uint32_t segment_bytes; /* payload bytes of a full packet */
	/* consecutive timeouts, at each of which the oldest packet was sent again */
	uint32_t timeouts;
	/* milliseconds since the last acknowledgement arrived; milliseconds since the last packet
	 * with payload was sent, for the first time or again */
	uint64_t last_ack_ms, last_send_ms;
	uint64_t stuck_ns; /* how long no message was sent although one waits; 0 if none waits */
	/* how bulk bytes are copied, such as "ring" or "memcpy"; NULL if not reported */
	const char *copy;
	int same_process; /* 1 if it is proven that both ends are in this process */
	struct net_message_counts messages;
};

/* Result of net_loan_ops.lent: what a sender has lent and not got back. */
struct net_lent {
	unsigned pieces; /* number of lent pieces, whose memory the peer may read at any time */
	size_t ahead;	 /* bytes that the transport has taken but not yet counted in *out_bytes */
	/* number of pieces that this call took back; they reach the peer torn (net_loan_ops) */
	unsigned torn;
};

#endif
