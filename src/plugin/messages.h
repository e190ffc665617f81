/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel of messages: a stream channel, the guide, carries its frames, and a comm each way
 * carries the payloads of those with FRAME_F_MSG, the k-th of them the comm's k-th message. To its
 * user it is a stream in which every payload stands behind its header, with a trailer: what
 * arrives waits in a bounce buffer until recv takes it from there. Frames without a sequence come
 * before those that wait for their message, but not before a refusal.
 *
 * Invariants: a receive is posted when its frame came, never before, so that an idle channel has
 * nothing posted; messages are taken and consumed in the order of their frames; a message whose
 * length is not its frame's ends the channel, as does one that does not come in time.
 *
 * Thread rule: both owners are the same thread, the comms' driver. While anything is posted arm
 * says 1, for nothing moves unless recv is called.
 */
#ifndef PLUGIN_MESSAGES_H
#define PLUGIN_MESSAGES_H

#include <stdbool.h>

#include "plugin/comm.h"
#include "net/net.h"

struct net_messages_opts {
	struct net_chan *guide;	   /* the channel's, on success */
	struct net_comm *out, *in; /* the caller's, who closes them behind the channel */
	uint32_t window;	   /* most messages of the peer's that are not taken; 1 to 16 */
	uint32_t message_bytes;	   /* most of one */
	/* Host memory: window times so much, the caller's. NULL: messages come in pieces, which
	 * are taken (net_message_ops.take); then the four below it. */
	uint8_t *bounce;
	bool whole; /* messages come into bounce, and are taken from there, each one piece */
	const struct ncclnet_queue_meta *meta; /* of in's queue, as the CPU sees it */
	uint64_t pool, pool_bytes;	       /* where its pieces lie */
	void *landing;		  /* GPU memory of message_bytes, for the plugin's checks alone */
	struct net_mr *bounce_mr; /* of bounce or landing, registered with in */
	int64_t timeout_ns;	  /* for a message to come, or to be taken by the plugin */
};

/* Its post takes a struct net_mr of out. ERR_INVALID, ERR_NO_MEMORY. */
tcpx_status net_messages_open(const struct net_messages_opts *opts,
			      struct net_chan **out_chan) TCPX_MUST_CHECK;

#endif
