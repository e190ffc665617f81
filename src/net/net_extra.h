/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stream channel may offer in addition to net_ops: one table for each extra, to which
 * net_ops points (NULL: not offered). All members of a table are set. No call blocks, unless its
 * comment says so.
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
	/* Like net_ops.send, but the pieces first .. first + held - 1 of iov must not change until
	 * the peer has confirmed their bytes, because the transport may read them after the
	 * return. The other pieces are the caller's again on return. The transport may have taken
	 * more of a held piece than *out_bytes says; the next call must offer those bytes again,
	 * at the same position of the stream, and their content is ignored. tx owner. */
	tcpx_status (*send_held)(struct net_chan *chan, const struct iovec *iov, int niov,
				 int first, int held, size_t *out_bytes);
	/* Returns 0 if the peer has reset the connection, so that memory which the peer holds for
	 * sending may have changed by now: bytes received since intact last returned 1 are not
	 * valid. rx owner. */
	int (*intact)(const struct net_chan *chan);
	/* Returns 1 if the peer's end is closed or gone, so that the peer receives nothing more.
	 * Called after shutdown. Any thread. */
	int (*ended)(const struct net_chan *chan);
	/* Discards what is queued for the peer and resets the connection; after that this host no
	 * longer reads held memory. Called after shutdown and before close, while no other call
	 * runs. */
	void (*purge)(struct net_chan *chan);
};

/* Lending: the transport lets the peer read pieces from the caller's memory some time after the
 * call. */
struct net_loan_ops {
	/* Like net_ops.send, but pieces may be lent. A byte counts in *out_bytes when the peer no
	 * longer reads it. Bytes that the transport has taken and not counted must be offered
	 * again, at the same position of the stream, by the next send or lend, which ignores their
	 * content. ERR_INVALID may also say that the peer could not read a lent piece: that piece
	 * arrives torn, and the next call counts it. tx owner. */
	tcpx_status (*lend)(struct net_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);
	/* Says what is still lent. take_back: before that, takes back each loan that the peer is
	 * not reading at this moment. May be called on an ended channel too: a dead peer reads
	 * nothing. tx owner, or the thread that stopped the channel. */
	void (*lent)(struct net_chan *chan, int take_back, struct net_lent *out_lent);
	/* Returns 1 if the bytes of the last recv are torn: they were lent, and the peer took them
	 * back before they were read, or its memory could not be read. Their number is right but
	 * their content is not valid; one recv never returns torn bytes together with others. rx
	 * owner, after a recv that returned OK. */
	int (*torn)(struct net_chan *chan);
};

/* Tells the peer, outside the stream, that this side reads memory of the peer. The peer sees it
 * until this process ends, even after the channel has failed. */
struct net_reading_ops {
	/* Counts the peer's regions that this side reads. on: one more; else one less. Any
	 * thread. */
	void (*set)(struct net_chan *chan, int on);
	/* Returns 1 if the peer reads memory of this side. Any thread. */
	int (*peer)(struct net_chan *chan);
};

/* Payloads that do not travel in the stream: in the stream the header of a frame with FRAME_F_MSG
 * is followed by the next frame's header; there is not even a trailer. */
struct net_message_ops {
	/* Posts the payload of the next frame with FRAME_F_MSG; the caller sends that frame after
	 * post has returned OK, and not before. mr: the payload's memory as the transport knows
	 * it. The transport reads data until the peer has it, or the transport's comms are closed.
	 * IN_PROGRESS: nothing was posted, call again. Other errors: the channel is lost. tx
	 * owner. */
	tcpx_status (*post)(struct net_chan *chan, void *mr, const void *data,
			    const struct frame *frame);
	/* Gets the pieces of the received message that belongs to the frame with that sequence
	 * number; they are valid until give. Messages may be taken in any order. ERR_STATE: no
	 * such message has been received. rx owner. */
	tcpx_status (*take)(struct net_chan *chan, uint64_t seq, struct net_message *out_message);
	/* Returns a message to the transport: the caller has taken it and no longer reads its
	 * pieces. rx owner. */
	void (*give)(struct net_chan *chan, uint64_t seq);
};

#endif
