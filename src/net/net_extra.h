/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stream channel may offer beyond net_ops: one table for each extra, to which net_ops points
 * (NULL: not offered). All members of a table are set. No call blocks, unless it says so.
 */
#ifndef NET_NET_EXTRA_H
#define NET_NET_EXTRA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/net_info.h"
#include <tcpx/types.h>

struct frame;
struct net_chan;

/* Sending without a copy: the transport references the caller's pages until the peer has them. */
struct net_zerocopy_ops {
	/* As net_ops.send; pieces first .. first + held - 1 of iov must not change until the peer
	 * has confirmed their bytes, because the transport may read them after the return. The
	 * other pieces are the caller's again on return. The transport may already have more of a
	 * held piece than it counted; the next call must offer those bytes again, at the same
	 * position of the stream, and their content is ignored. tx owner. */
	tcpx_status (*send_held)(struct net_chan *chan, const struct iovec *iov, int niov,
				 int first, int held, size_t *out_bytes);
	/* Returns 0 if the peer has reset the connection, so that held memory may have changed by
	 * now, and bytes received since the last answer 1 are not valid. rx owner. */
	int (*intact)(const struct net_chan *chan);
	/* Returns 1 if the peer's end is closed or gone, so that the peer receives nothing more.
	 * Called after shutdown. Any thread. */
	int (*ended)(const struct net_chan *chan);
	/* Discards what is queued for the peer and resets the connection; after that this host no
	 * longer reads held memory. Called after shutdown and before close, with no other call
	 * under way. */
	void (*purge)(struct net_chan *chan);
};

/* Lending: the peer reads pieces from the caller's memory some time after the call. */
struct net_loan_ops {
	/* As net_ops.send, but a piece may be lent. A byte is counted when the peer no longer reads
	 * it; bytes that are passed on and not counted must be offered again, at the same position
	 * of the stream, by the next send or lend, which ignores their content. ERR_INVALID means
	 * in addition that the peer could not read a piece: the piece arrives torn, and the next
	 * call counts it. tx owner. */
	tcpx_status (*lend)(struct net_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);
	/* What is still lent. take_back: first takes back each loan that the peer is not reading at
	 * this moment. Valid on an ended channel too: a dead peer reads nothing. tx owner, or the
	 * thread that stopped the channel. */
	void (*lent)(struct net_chan *chan, int take_back, struct net_lent *out_lent);
	/* Returns 1 if the bytes of the last recv are torn: they were lent, and taken back before
	 * they were read. Their number is right and their content is not; one recv never mixes them
	 * with others. rx owner, after a recv that returned OK. */
	int (*torn)(struct net_chan *chan);
};

/* Tells the peer, out of band, that this side reads memory of the peer's. The peer sees it until
 * this process ends, even after the channel has failed. */
struct net_reading_ops {
	/* Counts the peer's regions that this side reads. on: one more; else one less. Any
	 * thread. */
	void (*set)(struct net_chan *chan, int on);
	/* Returns 1 if the peer reads memory of this side. Any thread. */
	int (*peer)(struct net_chan *chan);
};

/* Payloads that travel beside the stream: nothing, not even a trailer, follows the header of a
 * frame with FRAME_F_MSG in the stream. */
struct net_message_ops {
	/* Posts the payload of the next frame with FRAME_F_MSG; that frame is sent when this has
	 * returned OK, and not before. mr: the payload's memory as the transport knows it. The
	 * transport reads data until the peer has it, or the transport's comms are closed.
	 * IN_PROGRESS: nothing is posted, call again. Other errors: the channel is lost. tx
	 * owner. */
	tcpx_status (*post)(struct net_chan *chan, void *mr, const void *data,
			    const struct frame *frame);
	/* Gets the pieces of the received message that belongs to the frame with that sequence
	 * number; they are valid until give. Messages may be taken in any order. ERR_STATE: no such
	 * message waits. rx owner. */
	tcpx_status (*take)(struct net_chan *chan, uint64_t seq, struct net_message *out_message);
	/* Gives back a message that the caller took and no longer reads. rx owner. */
	void (*give)(struct net_chan *chan, uint64_t seq);
};

#endif
