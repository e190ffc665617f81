/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin channel: its frames travel on a stream channel, the guide, and the payloads of frames
 * with FRAME_F_MSG through a comm in each direction; the payload of the k-th such frame is the
 * comm's k-th message. The user of the channel receives a stream in which the payload, with a
 * trailer, follows its header: an arriving message waits in a bounce buffer until recv copies it.
 * Frames without a sequence number overtake frames that wait for their message, except for ACKs,
 * which do not overtake a NACK.
 *
 * Invariants: a receive is posted after its frame has arrived, never before, so an idle channel has
 * nothing posted. Messages are taken and consumed in the order of their frames. A message that is
 * late, or whose length differs from its frame's, ends the channel.
 *
 * Threads: both owners are one thread, the comms' driver. While anything is posted arm returns 1,
 * because the plugin progresses only when recv calls it.
 */
#ifndef PLUGIN_MESSAGES_H
#define PLUGIN_MESSAGES_H

#include <stdbool.h>

#include "plugin/comm.h"
#include "net/net.h"

struct net_messages_opts {
	struct net_chan *guide;	   /* owned by the channel on success */
	struct net_comm *out, *in; /* the caller's; closed after the channel */
	uint32_t window;	   /* messages of the peer that are not received yet; 1 to 16 */
	uint32_t message_bytes;	   /* of the largest message */
	/* Host memory of the caller, window * message_bytes. NULL: messages arrive in pieces of a
	 * page pool and are taken (net_message_ops.take); meta to landing describe it. */
	uint8_t *bounce;
	bool whole; /* messages arrive in bounce and are taken from there, as one piece each */
	const struct ncclnet_queue_meta *meta; /* of in's queue, as the CPU sees it */
	uint64_t pool, pool_bytes;	       /* the page pool */
	void *landing;		  /* GPU memory of message_bytes, which the plugin only checks */
	struct net_mr *bounce_mr; /* of bounce or landing, registered with in */
	int64_t timeout_ns;	  /* for a message to arrive, or to be sent by the plugin */
};

/* Makes the channel. The mr of its net_message_ops.post is a struct net_mr of out. ERR_INVALID: a
 * window, size or timeout out of range; ERR_NO_MEMORY. */
tcpx_status net_messages_open(const struct net_messages_opts *opts,
			      struct net_chan **out_chan) TCPX_MUST_CHECK;

#endif
