/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream channel: bytes in order, in both directions; the engine frames them. transport.h says
 * how channels are made.
 *
 * Threads: at any moment at most one thread sends (the tx owner) and at most one receives (the rx
 * owner). These two may be different threads, and run at the same time. Any thread may call
 * shutdown meanwhile. close is the last call, and nothing else runs during it.
 *
 * No call waits for the peer or for room. A call may wait until the kernel has brought in a page
 * of the caller's memory.
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

#define NET_IOV_MAX 1024	    /* most iovecs of one call */
#define NET_CALL_BYTES (512u << 10) /* most bytes of user memory per call (decision 8) */

struct net_chan;

struct net_ops {
	const char *name; /* the transport's name, such as "tcp" */
	uint32_t caps;	  /* enum net_caps */

	/* Sends as much as the channel has room for. TCPX_OK: *out_bytes > 0 were taken.
	 * IN_PROGRESS: none were taken, wait for room. ERR_INVALID: the caller's memory is not
	 * mapped; nothing was sent, and the channel remains usable. Any other error: the channel
	 * is lost (PEER_RESET, UNREACHABLE, DISCONNECTED after shutdown on this side, ...); each
	 * later send returns the same error; errno is kept. The buffers are the caller's again on
	 * return; iov is not changed. tx owner. */
	tcpx_status (*send)(struct net_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);

	/* Receives what has arrived. TCPX_OK: *out_bytes > 0. IN_PROGRESS: nothing is there.
	 * PEER_CLOSED: the orderly end of the stream. Other errors are those of send. rx owner. */
	tcpx_status (*recv)(struct net_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);

	/* Called before the owner of a direction sleeps on the descriptor. want_recv and
	 * want_send, one per direction: > 0: the caller owns this direction and is going to sleep
	 * for it. 0: no change; another thread may own the direction. < 0: the owner of the
	 * direction no longer waits. A later recv or send says so as well; an owner that makes no
	 * such call must pass < 0, or the owner of the other direction never sleeps. *out_events:
	 * what to wait for in epoll or poll for the wants > 0 of this call. Returns 1 if something
	 * has arrived meanwhile: then nothing is armed and no event follows, so the caller must
	 * call recv or send (NET_CAP_DOORBELL: both) before it sleeps. The two owners may sleep at
	 * the same time in two threads. */
	int (*arm)(struct net_chan *chan, int want_recv, int want_send, uint32_t *out_events);

	/* The descriptor to poll. It belongs to the channel, and does not change until close. Any
	 * thread. */
	int (*fd)(const struct net_chan *chan);

	/* Sets the low-water mark of the receiving direction: no event comes before so many bytes
	 * are there; 0 or 1: an event comes with the first byte. A hint. The caller lowers the
	 * mark before it waits for fewer bytes. rx owner. */
	void (*recv_mark)(struct net_chan *chan, size_t bytes);

	/* Makes both directions fail soon at both ends. Idempotent. Any thread. */
	void (*shutdown)(struct net_chan *chan);

	/* Frees the channel. The caller makes sure that no other call runs or follows, and that
	 * no memory is lent. */
	void (*close)(struct net_chan *chan);

	/* Reads the counters of the channel; those that the transport does not have are 0. Any
	 * thread, until close. */
	void (*info)(const struct net_chan *chan, struct net_chan_info *out_info);

	/* Returns memory that an idle channel does not need to the system; does nothing while bytes
	 * are under way. tx owner. */
	void (*trim)(struct net_chan *chan);

	/* Extras (net_extra.h); NULL: the transport does not offer it. */
	const struct net_zerocopy_ops *zerocopy;
	const struct net_loan_ops *loan;
	const struct net_reading_ops *reading;
	const struct net_message_ops *message;
};

/* The first member of each transport's own channel struct. */
struct net_chan {
	const struct net_ops *ops;
	/* Set by the owner of the direction before a call: buffers of the call may vanish (memory
	 * of a file that is truncated), so only the kernel may access them, and ERR_INVALID says
	 * that a buffer has vanished. 0: buffers stay mapped during the call. */
	int tx_vanishing, rx_vanishing;
};

/* For transports that have nothing to do in these members of net_ops. */
void net_none_recv_mark(struct net_chan *chan, size_t bytes);
void net_none_trim(struct net_chan *chan);

/* Returns the status for the errno of a socket call: IN_PROGRESS (try later), ERR_INVALID
 * (EFAULT: the caller's memory is not mapped; nothing was moved, and the channel remains usable),
 * or the error with which the channel is lost. */
tcpx_status net_status_errno(int err);

#endif
