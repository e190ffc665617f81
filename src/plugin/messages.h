/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin channel: its frames travel on a stream channel, the guide, and the payloads of frames
 * with FRAME_F_MSG through a comm in each direction; the payload of the k-th such frame is the
 * comm's k-th message. The user of the channel receives a stream in which each payload, with a
 * trailer, follows its frame's header: an arriving message waits in a bounce buffer until recv
 * copies it. An ACK, which has no sequence number, overtakes frames that wait for their message,
 * but not a NACK.
 *
 * Invariants: a receive is posted after its frame has arrived, never before, so an idle channel has
 * nothing posted. Messages are taken and consumed in the order of their frames. A message that is
 * late, or whose length differs from its frame's, ends the channel.
 *
 * Threads: one thread owns both directions of the channel and drives both comms. While anything is
 * posted, arm returns 1, because the plugin progresses only when recv calls it.
 */
#ifndef PLUGIN_MESSAGES_H
#define PLUGIN_MESSAGES_H

#include <stdbool.h>

#include "plugin/comm.h"
#include "net/net.h"

struct net_messages_opts {
	struct net_chan *guide;	   /* owned by the channel on success */
	struct net_comm *out, *in; /* owned by the caller; closed after the channel */
	uint32_t window;	   /* most messages announced and not consumed; 1 to 16 */
	uint32_t message_bytes;	   /* size of the largest message */
	/* Host memory of the caller, window * message_bytes bytes. NULL: messages arrive as
	 * fragments in a page pool, and the user takes them (net_message_ops.take); meta, pool,
	 * pool_bytes and landing describe where. */
	uint8_t *bounce;
	bool whole; /* messages arrive in bounce, and the user takes each as one fragment */
	const struct ncclnet_queue_meta *meta; /* in's device queue, at a CPU address */
	uint64_t pool, pool_bytes;	       /* address and size of the page pool */
	void *landing; /* GPU memory of message_bytes bytes, which the plugin only checks */
	struct net_mr *bounce_mr; /* registration of bounce or landing with in */
	int64_t timeout_ns;	  /* limit for a message to arrive, or to be sent by the plugin */
};

/* Makes the channel. The mr that its net_message_ops.post takes is a struct net_mr of the comm out.
 * ERR_INVALID: a window, size or timeout out of range; ERR_NO_MEMORY. */
tcpx_status net_messages_open(const struct net_messages_opts *opts,
			      struct net_chan **out_chan) TCPX_MUST_CHECK;

#endif
