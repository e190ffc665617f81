/* SPDX-License-Identifier: Apache-2.0 */
/* What a transport reports about a channel: counters, loans, messages in pieces. */
#ifndef NET_NET_INFO_H
#define NET_NET_INFO_H

#include <stddef.h>
#include <stdint.h>

#include "base/frag.h"

/* A received message of a plugin, in pieces (net_message_ops.take). */
struct net_message {
	const struct base_frag *frags; /* memory that the transport or the peer writes: untrusted */
	uint64_t nfrags;
	uint64_t pool, pool_bytes; /* GPU memory that contains the pieces: its address and size */
};

/* Numbers of messages of a channel. The second line counts receives: posted, done, copied to their
 * destination, given back to the plugin. */
struct net_message_counts {
	uint64_t sends_posted, sends_done;
	uint64_t posted, done, unpacked, consumed;
};

/* What a transport knows about a channel; 0: unknown. Sums begin when the channel is made. */
struct net_chan_info {
	char congestion[16];
	uint64_t busy_ns, rwnd_limited_ns, sndbuf_limited_ns, retransmits, rtt_ns;
	uint64_t unacked_bytes, acked_bytes;
	uint32_t segment_bytes; /* payload of a full packet */
	uint32_t timeouts;	/* timeouts in a row; each sent the oldest packet again */
	/* milliseconds since the last acknowledgement, and since the last packet with payload was
	 * sent, for the first time or again */
	uint64_t last_ack_ms, last_send_ms;
	uint64_t stuck_ns; /* how long the oldest message has waited to be sent */
	const char *copy;  /* how bulk bytes move: "ring", "memcpy", ...; or NULL */
	int same_process;  /* proven: both ends are in this process */
	struct net_message_counts messages;
};

/* What a sender has lent and not got back. */
struct net_lent {
	unsigned pieces; /* lent pieces, whose memory the peer may read at any time */
	size_t ahead;	 /* bytes that the transport has and no call has counted yet */
	/* pieces taken back by this call: they reach the peer torn (net_loan_ops) */
	unsigned torn;
};

#endif
