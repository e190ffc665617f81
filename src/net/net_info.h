/* SPDX-License-Identifier: Apache-2.0 */
/* What a transport tells of a channel: its state, and what it lent or received in pieces. */
#ifndef NET_NET_INFO_H
#define NET_NET_INFO_H

#include <stddef.h>
#include <stdint.h>

#include "base/frag.h"

/* A received message that lies in pieces (net_message_ops.take). */
struct net_message {
	const struct base_frag *frags; /* the transport's, or its peer's: not to be trusted */
	uint64_t nfrags;
	uint64_t pool, pool_bytes; /* what they lie in: an address of the GPU */
};

/* Of messages: how many sends were begun and ended, and of those that come how many were posted,
 * are there, were copied to where they belong, and were given back to the plugin. */
struct net_message_counts {
	uint64_t sends_posted, sends_done;
	uint64_t posted, done, unpacked, consumed;
};

/* Sums since the channel began; what a transport cannot know stays 0. */
struct net_chan_info {
	char congestion[16];
	uint64_t busy_ns, rwnd_limited_ns, sndbuf_limited_ns, retransmits, rtt_ns;
	uint64_t unacked_bytes, acked_bytes;
	uint32_t segment_bytes; /* payload of a full packet */
	uint32_t timeouts;	/* in a row, each of which sent the oldest packet again */
	uint64_t last_ack_ms, last_send_ms; /* ago; of packets with payload, sent again or not */
	uint64_t stuck_ns;		    /* for so long the oldest message has not been taken */
	const char *copy; /* how bulk bytes move: "ring", "memcpy", ...; or NULL */
	int same_process; /* both ends are in this process, which is proven */
	struct net_message_counts messages;
};

/* What a sender lent and did not get back yet. */
struct net_lent {
	unsigned pieces; /* the peer may read their memory at any time */
	size_t ahead;	 /* bytes that are with the transport and not counted by a call yet */
	unsigned torn;	 /* pieces just taken back: the peer gets so much of the stream torn */
};

#endif
