/* SPDX-License-Identifier: Apache-2.0 */
/* Structs in which a transport reports about a channel: counters, loans, messages in pieces. */
#ifndef NET_NET_INFO_H
#define NET_NET_INFO_H

#include <stddef.h>
#include <stdint.h>

#include "base/frag.h"

/* A received message of a plugin, in pieces (see net_message_ops.take). */
struct net_message {
	/* the transport or the peer may change this memory at any time: untrusted */
	const struct base_frag *frags;
	uint64_t nfrags;
	/* the GPU memory that contains the pieces: its address and size */
	uint64_t pool, pool_bytes;
};

/* Numbers of messages of a channel. sends_posted, sends_done count messages to be sent: posted to
 * the plugin, done. `posted`, `done`, `unpacked`, `consumed` count received messages: posted to
 * the plugin, arrived, copied to their destination, given back to the plugin. */
struct net_message_counts {
	uint64_t sends_posted, sends_done;
	uint64_t posted, done, unpacked, consumed;
};

/* What a transport knows about a channel; 0: unknown. Sums begin when the channel is made. */
struct net_chan_info {
	char congestion[16]; /* name of the congestion control; "": unknown */
	uint64_t busy_ns, rwnd_limited_ns, sndbuf_limited_ns, retransmits, rtt_ns;
	uint64_t unacked_bytes, acked_bytes; /* sent and not acknowledged yet; acknowledged */
	uint32_t segment_bytes;		     /* payload of a full packet */
	uint32_t timeouts; /* timeouts in a row; at each the oldest packet was sent again */
	/* milliseconds since the last acknowledgement, and since the last packet with payload was
	 * sent, for the first time or again */
	uint64_t last_ack_ms, last_send_ms;
	uint64_t stuck_ns; /* how long the oldest message has waited to be sent */
	/* how bulk bytes are copied: "ring", "memcpy", ...; NULL: not reported */
	const char *copy;
	int same_process; /* 1: proven: both ends are in this process */
	struct net_message_counts messages;
};

/* Result of net_loan_ops.lent: what a sender has lent and not got back. */
struct net_lent {
	unsigned pieces; /* lent pieces, whose memory the peer may read at any time */
	size_t ahead;	 /* bytes that the transport has and no call has counted yet */
	/* pieces that this call took back: they reach the peer torn (net_loan_ops) */
	unsigned torn;
};

#endif
