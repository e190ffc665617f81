/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin channel: its frames travel on a stream channel, the guide, and the payloads of frames
 * with FRAME_F_MSG through a comm in each direction; the payload of the k-th such frame is the
 * comm's k-th message.
 *
 * If messages arrive in a bounce buffer (net_messages_opts.bounce without whole), the user of the
 * channel receives a stream in which each payload, with a trailer, follows its frame's header: recv
 * copies the payload out of the buffer. Otherwise the stream has headers only, and the user gets
 * the message of a frame with net_message_ops.take. An ACK, which has no sequence number, overtakes
 * frames that wait for their message, unless one of them is a NACK.
 *
 * Invariants: a receive is posted after its frame has arrived, never before, so an idle channel has
 * nothing posted. Messages are taken and consumed in the order of their frames. A message that is
 * late, or whose length differs from its frame's, ends the channel.
 *
 * Threads: one thread owns both directions of the channel and drives both comms. While anything is
 * posted, arm returns 1 (do not sleep), because the plugin progresses only when recv calls it.
 */
#ifndef PLUGIN_MESSAGES_H
#define PLUGIN_MESSAGES_H

#include <stdbool.h>

#include "plugin/comm.h"
#include "net/net.h"

struct net_messages_opts {
	struct net_chan *guide;	   /* owned by the channel on success */
	struct net_comm *out, *in; /* owned by the caller; closed after the channel */
	/* most received messages that are announced and not consumed; 1 to 16 */
	uint32_t window;
	uint32_t message_bytes; /* size of the largest message */
	/* Host memory of the caller, window * message_bytes bytes. NULL: messages arrive as
	 * fragments in a page pool, which meta, pool, pool_bytes and landing describe, and the user
	 * takes them (net_message_ops.take). */
	uint8_t *bounce;
	bool whole; /* messages arrive in `bounce`, and the user takes each as one fragment */
	const struct ncclnet_queue_meta *meta; /* device queue of the comm `in`, at a CPU address */
	uint64_t pool, pool_bytes;	       /* address and size of the page pool */
	void *landing; /* GPU memory of message_bytes bytes, which the plugin only checks */
	/* registration of `bounce`, or of `landing`, with the comm `in` */
	struct net_mr *bounce_mr;
	/* most time for an announced message to arrive, and for the plugin to send one */
	int64_t timeout_ns;
};

/* Makes the channel. The mr that its net_message_ops.post takes is a struct net_mr of the comm
 * `out`. ERR_INVALID: a window, size or timeout out of range; ERR_NO_MEMORY. */
tcpx_status net_messages_open(const struct net_messages_opts *opts,
			      struct net_chan **out_chan) TCPX_MUST_CHECK;

#endif
