/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin channel. Its frames travel on a stream channel, the guide. The payloads of frames with
 * FRAME_F_MSG travel through two comms, one for each direction: the payload of the k-th such frame
 * is the k-th message of the comm.
 *
 * If net_messages_opts.bounce is set and `whole` is not, the user of the channel receives a stream
 * in which each payload, with a trailer, follows the header of its frame. recv copies the payload
 * out of `bounce`. Otherwise the stream has headers only, and the user gets the message of a frame
 * with net_message_ops.take. Frames wait for their message, and for the frames before them. An ACK,
 * which has no sequence number, overtakes the waiting frames that recv has not begun to return,
 * unless one of the waiting frames is a NACK.
 *
 * Invariants: the receive of a message is posted only after its frame has arrived, so an idle
 * channel has no receive posted. Messages are received and consumed in the order of their frames. A
 * message that is late, or has another length than its frame says, ends the channel.
 *
 * Threads: one thread owns both directions of the channel and drives both comms. While anything is
 * posted, arm with want_recv > 0 returns 1 (do not sleep), because the plugin progresses only when
 * recv calls it.
 */
#ifndef PLUGIN_MESSAGES_H
#define PLUGIN_MESSAGES_H

#include <stdbool.h>

#include "plugin/comm.h"
#include "net/net.h"

struct net_messages_opts {
	struct net_chan *guide; /* owned by the channel after success */
	/* owned by the caller, who closes them when recv and net_message_ops are no longer
	 * called */
	struct net_comm *out, *in;
	/* most messages, 1 to 16, that the peer has announced and that are not consumed */
	uint32_t window;
	uint32_t message_bytes; /* size of the largest message */
	/* Host memory of the caller, window * message_bytes bytes. If NULL, messages arrive as
	 * fragments in the page pool (the plugin's bounce pages) that `meta`, `pool` and
	 * `pool_bytes` describe, and the user takes them (net_message_ops.take). */
	uint8_t *bounce;
	bool whole; /* messages arrive in `bounce`, and the user takes each as one fragment */
	const struct ncclnet_queue_meta *meta; /* device queue of the comm `in`, at a CPU address */
	uint64_t pool, pool_bytes; /* address and size of the page pool; if `whole`: of `bounce` */
	/* if `bounce` is NULL: GPU memory of message_bytes bytes, passed to irecv; the plugin
	 * checks it and does not write to it */
	void *landing;
	/* registration of `bounce`, or else of `landing`, with the comm `in` */
	struct net_mr *bounce_mr;
	/* time limit for an announced message to arrive, and for the plugin to send a message */
	int64_t timeout_ns;
};

/* Makes the channel. The `mr` argument of its net_message_ops.post is a struct net_mr of the comm
 * `out`. Returns ERR_INVALID if the window, size or timeout is out of range, or ERR_NO_MEMORY. */
tcpx_status net_messages_open(const struct net_messages_opts *opts,
			      struct net_chan **out_chan) TCPX_MUST_CHECK;

#endif
