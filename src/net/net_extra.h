/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extra functions that a stream channel may offer in addition to net_ops. There is one table for
 * each extra; its pointer in net_ops is NULL if the channel does not offer the extra. All members
 * of a table are set. No function blocks, unless its comment says that it does.
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

/* Sending without a copy: the transport refers to the caller's pages until the peer has their
 * bytes. */
struct net_zerocopy_ops {
	/* Like net_ops.send, but the pieces first .. first + held - 1 of iov are held: they must
	 * not change until the peer has confirmed their bytes, because the transport may read them
	 * after the return. The other pieces are the caller's again on return. The transport may
	 * have taken more of a held piece than *out_bytes says. The next call must offer those
	 * bytes again at the same position of the stream; the transport then ignores their content.
	 * Called by the tx owner. */
	tcpx_status (*send_held)(struct net_chan *chan, const struct iovec *iov, int niov,
				 int first, int held, size_t *out_bytes);
	/* Returns 0 if the connection has ended in both directions, for example by a reset. The
	 * peer may then have changed memory that it was still sending, so bytes received since
	 * intact last returned 1 are not valid. Called by the rx owner. */
	int (*intact)(const struct net_chan *chan);
	/* Returns 1 if the peer's end is closed, so that the peer receives nothing more. Called
	 * after shutdown, by any thread. */
	int (*ended)(const struct net_chan *chan);
	/* Discards the bytes that are queued for the peer and resets the connection. After that
	 * this host no longer reads held memory. Called after shutdown and before close, while no
	 * other call runs. */
	void (*purge)(struct net_chan *chan);
};

/* Lending: the transport lets the peer read pieces from the caller's memory after the call has
 * returned. */
struct net_loan_ops {
	/* Returns 1 if lend may lend pieces on this channel, 0 if it sends all bytes as send does.
	 * May change from 0 to 1, but not back. May be called by any thread. */
	int (*lends)(const struct net_chan *chan);
	/* Like net_ops.send, but pieces may be lent. A byte is counted in *out_bytes only when the
	 * peer no longer reads it. Bytes that the transport has taken and not counted must be
	 * offered again, at the same position of the stream, by the next send or lend, which
	 * ignores their content. ERR_INVALID may also mean that the peer could not read a lent
	 * piece. That piece reaches the peer torn (see torn), and the next call counts it. Called
	 * by the tx owner. */
	tcpx_status (*lend)(struct net_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);
	/* Stores in *out_lent what is still lent. If take_back is not 0, first takes back each loan
	 * that the peer is not reading at this moment. May also be called on an ended channel, and
	 * then reports nothing as lent if the peer's process has ended. Called by the tx owner, or
	 * by the control thread after it has stopped the channel. */
	void (*lent)(struct net_chan *chan, int take_back, struct net_lent *out_lent);
	/* Returns 1 if the bytes of the last recv are torn: the peer lent them and took them back
	 * before they were read, or its memory could not be read. The number of bytes is right, but
	 * their content is not valid. One recv never returns torn bytes together with others.
	 * Called by the rx owner once after each recv that returned OK. */
	int (*torn)(struct net_chan *chan);
};

/* Tells the peer, outside the stream, that this side reads memory of the peer. The peer can see
 * this until this process ends, even after the channel has failed. */
struct net_reading_ops {
	/* Changes the number of the peer's regions that this side reads: adds 1 if `on` is not 0,
	 * else subtracts 1. May be called by any thread. */
	void (*set)(struct net_chan *chan, int on);
	/* Returns 1 if the peer reads memory of this side. May be called by any thread. */
	int (*peer)(struct net_chan *chan);
};

/* Payloads that do not travel in the stream. In the stream, the header of a frame with FRAME_F_MSG
 * is directly followed by the next frame's header, without payload and trailer. */
struct net_message_ops {
	/* Posts the payload of the next frame with FRAME_F_MSG. The caller must not send that frame
	 * before post has returned OK. `mr` is the transport's handle of the payload's memory. The
	 * transport reads `data` until the peer has received it or the transport's comms are
	 * closed. Returns IN_PROGRESS if nothing was posted; the caller must then call again. Any
	 * other error means that the channel is lost. Called by the tx owner. */
	tcpx_status (*post)(struct net_chan *chan, void *mr, const void *data,
			    const struct frame *frame);
	/* Gets the pieces of the received message that belongs to the frame with sequence number
	 * `seq`. The pieces are valid until give. Messages may be taken in any order. Returns
	 * ERR_STATE if this message has not been received. Called by the rx owner. */
	tcpx_status (*take)(struct net_chan *chan, uint64_t seq, struct net_message *out_message);
	/* Returns a message to the transport. The caller must have taken the message and no longer
	 * reads its pieces. Called by the rx owner. */
	void (*give)(struct net_chan *chan, uint64_t seq);
};

#endif
