/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport contract. A channel moves bytes in order in both directions; the engine frames
 * them.
 *
 * Thread rule: at any moment at most one thread sends (the tx owner) and at most one receives (the
 * rx owner); they may be different threads and may run at the same time. shutdown may come from any
 * thread while they run. close comes last, alone.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/net_info.h"
#include <tcpx/types.h>

enum net_caps {
	NET_CAP_DOORBELL = 1u << 0, /* readable may also mean "room to send" */
};

#define NET_IOV_MAX 1024	    /* most iovecs of one call */
#define NET_CALL_BYTES (512u << 10) /* most user memory per call (decision 8) */

struct frame;
struct net_chan;

struct net_ops {
	const char *name; /* "tcp", "local" */
	uint32_t caps;	  /* enum net_caps */

	/* Sends what goes without blocking. TCPX_OK: *out_bytes > 0 were taken; IN_PROGRESS: none,
	 * wait for room; an error of the channel or peer range: the channel is lost (PEER_RESET,
	 * UNREACHABLE, DISCONNECTED after our own shutdown, ...), sticky. errno is kept.
	 * ERR_INVALID: the caller's memory is not mapped; nothing moved, the channel lives. The
	 * buffers are the caller's again on return. iov is not changed. tx owner. */
	tcpx_status (*send)(struct net_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);

	/* Optional. As send; the held pieces from piece first on are memory that stays as it is
	 * until the peer has said that it got the bytes: the transport may go on reading them
	 * after the return. The other pieces are the caller's again at once. Instead of what is
	 * left of a held piece anything may be offered to send, which does not look at it as far
	 * as the transport has the bytes already. tx owner. */
	tcpx_status (*send_held)(struct net_chan *chan, const struct iovec *iov, int niov,
				 int first, int held, size_t *out_bytes);

	/* Receives what is there. TCPX_OK: *out_bytes > 0; IN_PROGRESS: nothing there; PEER_CLOSED:
	 * orderly end of stream; other errors as send. rx owner. */
	tcpx_status (*recv)(struct net_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);

	/* Before the owner of a direction sleeps on the descriptor. A want > 0: the caller owns
	 * that direction and is going to sleep for it; 0: unchanged, it may be another thread's;
	 * < 0: its owner does not wait any more (its next send or recv says so too; whoever stops
	 * without one must, or the other direction finds no sleep). *out_events: what to wait for
	 * in epoll or poll for the wants > 0 of this call.
	 * Returns 1 when something came meanwhile: then nothing is armed, no event will tell of
	 * it, and the caller must call recv or send (NET_CAP_DOORBELL: both) before it sleeps.
	 * The two owners may be two threads that sleep at the same time. */
	int (*arm)(struct net_chan *chan, int want_recv, int want_send, uint32_t *out_events);

	/* The descriptor to poll; constant over the channel's life. Any thread. */
	int (*fd)(const struct net_chan *chan);

	/* Low-water mark of the receive side: sleep until so many bytes are there; 0 or 1 resets.
	 * A hint; the caller lowers it before it waits for fewer. rx owner. */
	void (*recv_mark)(struct net_chan *chan, size_t bytes);

	/* Makes both directions of both ends fail soon; idempotent. Any thread. */
	void (*shutdown)(struct net_chan *chan);

	/* Of transports with send_held; NULL elsewhere, which means: 1, 1, nothing to do. */

	/* 0: the peer has thrown the connection away, and what it held may be other bytes by now:
	 * of what was received since this was last 1, nothing is to be believed. rx owner. */
	int (*intact)(const struct net_chan *chan);
	/* 1: the peer's end is closed or gone, so it takes nothing more. After shutdown. Any
	 * thread. */
	int (*ended)(const struct net_chan *chan);
	/* Throws away what is queued for the peer and resets the connection: what was held is no
	 * longer read on this host. After shutdown, nobody inside; before close. */
	void (*purge)(struct net_chan *chan);

	/* Frees it. Nobody uses it any more, and nothing is lent. */
	void (*close)(struct net_chan *chan);

	/* Lending, optional: NULL where every byte is copied at once. As send, but pieces may be
	 * lent: the peer reads them from where they lie, some time after the return. A byte counts
	 * when it is read no more; what is put ahead of that must be offered again, at the same
	 * place of the stream, by the next send or lend, which does not look at it. ERR_INVALID:
	 * also when the peer could not read a piece; it then has that piece torn, and the next
	 * call counts it. tx owner. */
	tcpx_status (*lend)(struct net_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);
	/* What is lent still; take_back: first ends every loan that the peer is not reading at
	 * this moment. Works on an ended channel too: a peer that is gone reads nothing. tx owner,
	 * and whoever comes after the last one. */
	void (*lent)(struct net_chan *chan, int take_back, struct net_lent *out_lent);
	/* 1: the bytes of the last recv are torn: lent, and taken back before they were read. Their
	 * number is right and their content is not; no recv returns them together with others.
	 * rx owner, after a recv that returned OK. */
	int (*torn)(struct net_chan *chan);

	/* A word to the peer that this side reads memory of its, counted; the peer sees it as long
	 * as this process lives, whatever became of the channel. Optional. Any thread. */
	void (*hold)(struct net_chan *chan, int on);
	/* 1: the peer says so of ours. Any thread. */
	int (*held)(struct net_chan *chan);

	/* The payload of the next frame with FRAME_F_MSG, which is to be sent when it is taken and
	 * not before; optional. mr: its memory, as the transport knows it. OK: data is read until
	 * the peer has it, or the transport's comms are closed. IN_PROGRESS: nothing is posted,
	 * call again. tx owner. */
	tcpx_status (*post)(struct net_chan *chan, void *mr, const void *data,
			    const struct frame *frame);

	/* Messages that are not bytes of the stream, optional: behind the header of a frame with
	 * FRAME_F_MSG nothing comes, no trailer either. take: what is there of the frame with that
	 * sequence, until give says that nobody looks at it any more; in any order. rx owner. */
	tcpx_status (*take)(struct net_chan *chan, uint64_t seq, struct net_message *out_message);
	void (*give)(struct net_chan *chan, uint64_t seq);

	/* Any thread but after close. */
	void (*info)(const struct net_chan *chan, struct net_chan_info *out_info);
};

/* First member of every transport's channel. */
struct net_chan {
	const struct net_ops *ops;
	/* Set before a call: buffers of it may vanish (a file that is truncated), so only the
	 * kernel may touch them, and ERR_INVALID says that one is gone. The owner's of the
	 * direction. Buffers without that promise are there. */
	int tx_vanishing, rx_vanishing;
};

/* Optional members filled with "does nothing" for a transport without them. */
void net_none_recv_mark(struct net_chan *chan, size_t bytes);
void net_none_info(const struct net_chan *chan, struct net_chan_info *out_info);

/* What an errno of a socket call means: IN_PROGRESS (try later), ERR_INVALID (EFAULT: the caller's
 * memory; nothing moved, the channel is whole, not sticky), or the sticky end of the channel. */
tcpx_status net_status_errno(int err);

/* tcp: owns fd on success. */
tcpx_status net_tcp_wrap(int fd, struct net_chan **out_chan);

#endif
