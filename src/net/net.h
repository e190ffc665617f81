/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream channel carries bytes in order in both directions. The engine divides the bytes into
 * frames. transport.h says how channels are made.
 *
 * Threads: at any moment at most one thread sends (the tx owner) and at most one receives (the rx
 * owner). These two may be different threads and may run at the same time. Any thread may call
 * shutdown at any time. close is the last call, and no other call may run during it.
 *
 * No call waits for the peer or for room. A call may wait until the kernel has brought in a page of
 * the caller's memory.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/net_extra.h"
#include "net/net_info.h"
#include <tcpx/types.h>

enum net_caps {
	NET_CAP_DOORBELL = 1u << 0, /* an event "readable" may also mean "room to send" */
};

#define NET_IOV_MAX 1024	    /* maximum number of iovecs of one call */
#define NET_CALL_BYTES (512u << 10) /* maximum bytes of user memory in one call */

struct net_chan;

struct net_ops {
	const char *name; /* the transport's name, such as "tcp" */
	uint32_t caps;	  /* enum net_caps */

	/* Sends as much as the channel has room for. Returns OK if *out_bytes > 0 bytes were taken,
	 * and IN_PROGRESS if there is no room. Returns ERR_INVALID if the caller's memory is not
	 * mapped; then nothing was sent, and the channel remains usable. Any other error means that
	 * the channel is lost (PEER_RESET, UNREACHABLE, DISCONNECTED after shutdown on this side,
	 * ...), and each later send returns the same error. errno is left as the failed system call
	 * set it. iov is not changed, and its buffers are the caller's again on return. Called by
	 * the tx owner. */
	tcpx_status (*send)(struct net_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);

	/* Receives what has arrived. Returns OK if *out_bytes > 0 bytes were received, IN_PROGRESS
	 * if nothing has arrived, and PEER_CLOSED after the orderly end of the stream. Other errors
	 * are those of send. Called by the rx owner. */
	tcpx_status (*recv)(struct net_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);

	/* Prepares sleep on the descriptor. Called before the owner of a direction sleeps.
	 * want_recv and want_send stand for one direction each. > 0: the caller owns the direction
	 * and is about to sleep for it. 0: no change; another thread may own the direction. < 0:
	 * the owner of the direction no longer waits. A later recv or send has the same effect as <
	 * 0. An owner that stops waiting without such a call must pass < 0; otherwise the owner of
	 * the other direction may be unable to sleep. *out_events becomes the events to wait for,
	 * in epoll or poll, for the directions whose want is > 0. Returns 1 if there is something
	 * to do already. Then an event may never come, and the caller must call recv or send (with
	 * NET_CAP_DOORBELL both) before it sleeps. The two owners may sleep at the same time in two
	 * threads. */
	int (*arm)(struct net_chan *chan, int want_recv, int want_send, uint32_t *out_events);

	/* Returns the descriptor to poll. It belongs to the channel and does not change until
	 * close. May be called by any thread. */
	int (*fd)(const struct net_chan *chan);

	/* Sets the low-water mark of the receiving direction, as a hint: no event comes until this
	 * many bytes can be received. With 0 or 1, an event comes with the first byte. The caller
	 * must lower the mark before it waits for fewer bytes. Called by the rx owner. */
	void (*recv_mark)(struct net_chan *chan, size_t bytes);

	/* Makes both directions fail soon at both ends. A second shutdown has no effect. May be
	 * called by any thread. */
	void (*shutdown)(struct net_chan *chan);

	/* Frees the channel. The caller must make sure that no other call runs or follows, and that
	 * no memory is lent. */
	void (*close)(struct net_chan *chan);

	/* Reads the counters of the channel; counters that the transport does not have are 0. May
	 * be called by any thread until close. */
	void (*info)(const struct net_chan *chan, struct net_chan_info *out_info);

	/* Returns to the system the memory that an idle channel does not need. Does nothing while
	 * bytes are under way. Called by the tx owner. */
	void (*trim)(struct net_chan *chan);

	/* Tables of extra functions (net_extra.h); NULL if the transport does not offer them. */
	const struct net_zerocopy_ops *zerocopy;
	const struct net_loan_ops *loan;
	const struct net_reading_ops *reading;
	const struct net_message_ops *message;
};

/* The first member of each transport's own channel struct. */
struct net_chan {
	const struct net_ops *ops;
	/* Set by the owner of the direction before a call. Not 0: buffers of the call may vanish
	 * (memory of a file that is truncated), so only the kernel may access them, and the call
	 * returns ERR_INVALID if one has vanished. 0: buffers stay mapped during the call. */
	int tx_vanishing, rx_vanishing;
};

/* Do nothing; for transports that have no use for these members of net_ops. */
void net_none_recv_mark(struct net_chan *chan, size_t bytes);
void net_none_trim(struct net_chan *chan);

/* Returns the status for the errno of a socket call. IN_PROGRESS means that the call may succeed
 * later. ERR_INVALID means that the caller's memory is not mapped (EFAULT); nothing was moved, and
 * the channel remains usable. Any other status is the error with which the channel is lost. */
tcpx_status net_status_errno(int err);

#endif
