/* SPDX-License-Identifier: Apache-2.0 */
/* The filter that watches both sides of the contract and counts every breach. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/frame.h"
#include "parts/filter_priv.h"

/* Headers, tables and trailers may go beside NET_CALL_BYTES of user memory. */
#define CHECK_CALL_BYTES (NET_CALL_BYTES + (FRAME_TABLE_MAX) + (64u << 10))
#define CHECK_GRAVES 256 /* closed channels kept to catch late calls */

struct check_side {
	_Atomic int inside; /* a call is under way */
	int ended;	    /* an error of the channel was returned: it is sticky */
	struct iovec iov[NET_IOV_MAX];
};

struct check_chan {
	struct filter_chan head;
	_Atomic int closed, down;
	struct check_side tx, rx;
};

static _Atomic uint64_t breaches;
static struct {
	pthread_mutex_t lock;
	struct check_chan *chan[CHECK_GRAVES];
	unsigned next;
} graves = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t filter_check_breaches(void)
{
	return atomic_load(&breaches);
}

static void breach(const struct check_chan *chan, const char *call, const char *what)
{
	static struct log_limit limit;

	atomic_fetch_add(&breaches, 1);
	if (log_allow(&limit, 20))
		LOG_ERROR("filter check: %s channel: %s: %s", chan->head.ops.name, call, what);
}

/* 0 when the channel is closed: the call must not go on. */
static int check_open(const struct net_chan *base, const char *call)
{
	const struct check_chan *chan = (const struct check_chan *)base;

	if (!atomic_load(&chan->closed))
		return 1;
	breach(chan, call, "after close");
	return 0;
}

static void check_before(struct check_chan *chan, struct check_side *side, const char *call,
			 const struct iovec *iov, int niov)
{
	size_t bytes = 0;

	if (niov <= 0 || niov > NET_IOV_MAX) {
		breach(chan, call, "number of iovecs");
		return;
	}
	for (int i = 0; i < niov; i++) {
		if (iov[i].iov_len && !iov[i].iov_base)
			breach(chan, call, "iovec without memory");
		bytes += iov[i].iov_len;
	}
	if (!bytes)
		breach(chan, call, "no bytes asked for");
	if (bytes > CHECK_CALL_BYTES)
		breach(chan, call, "too many bytes in one call");
	memcpy(side->iov, iov, (size_t)niov * sizeof(*iov));
}

static void check_after(struct check_chan *chan, struct check_side *side, const char *call,
			const struct iovec *iov, int niov, tcpx_status status, size_t moved)
{
	if (niov > 0 && niov <= NET_IOV_MAX && memcmp(side->iov, iov, (size_t)niov * sizeof(*iov)))
		breach(chan, call, "iovecs changed");
	if (status == TCPX_OK) {
		if (!moved || moved > filter_iov_bytes(iov, niov))
			breach(chan, call, "number of bytes moved");
	} else if (moved) {
		breach(chan, call, "bytes moved without success");
	}
	if (status <= TCPX_ERR_CHANNEL_LOST && status > TCPX_ERR_SESSION_CLOSED)
		side->ended = 1;
	else if (side->ended)
		breach(chan, call, "no error after the end");
	else if (status && status != TCPX_IN_PROGRESS && status != TCPX_ERR_INVALID)
		breach(chan, call, "status outside of the contract");
}

/* The call is the only one of its side; 0: it is not, and goes on unchecked. */
static int check_enter(struct check_chan *chan, struct check_side *side, const char *call,
		       const struct iovec *iov, int niov)
{
	if (atomic_exchange(&side->inside, 1)) {
		breach(chan, call, "two owners at once");
		return 0;
	}
	check_before(chan, side, call, iov, niov);
	return 1;
}

static tcpx_status check_leave(struct check_chan *chan, struct check_side *side, const char *call,
			       const struct iovec *iov, int niov, tcpx_status status, size_t moved,
			       size_t *out_bytes)
{
	check_after(chan, side, call, iov, niov, status, moved);
	if (status == TCPX_OK)
		*out_bytes = moved;
	atomic_store(&side->inside, 0);
	return status;
}

/* Both directions' calls; op is the inner one's. */
static tcpx_status check_move(struct check_chan *chan, struct check_side *side, const char *call,
			      tcpx_status (*op)(struct net_chan *, const struct iovec *, int,
						size_t *),
			      const struct iovec *iov, int niov, size_t *out_bytes)
{
	struct net_chan *inner =
		side == &chan->tx ? filter_tx(&chan->head) : filter_rx(&chan->head);
	size_t moved = 0;
	tcpx_status status;

	if (!check_open(&chan->head.base, call))
		return TCPX_ERR_CHANNEL_LOST;
	if (!check_enter(chan, side, call, iov, niov))
		return op(inner, iov, niov, out_bytes);
	status = op(inner, iov, niov, &moved);
	return check_leave(chan, side, call, iov, niov, status, moved, out_bytes);
}

static tcpx_status check_send(struct net_chan *base, const struct iovec *iov, int niov,
			      size_t *out_bytes)
{
	struct check_chan *chan = (struct check_chan *)base;

	return check_move(chan, &chan->tx, "send", chan->head.inner->ops->send, iov, niov,
			  out_bytes);
}

static tcpx_status check_send_held(struct net_chan *base, const struct iovec *iov, int niov,
				   int first, int held, size_t *out_bytes)
{
	struct check_chan *chan = (struct check_chan *)base;
	struct net_chan *inner = filter_tx(&chan->head);
	size_t moved = 0;
	tcpx_status status;

	if (!check_open(base, "send_held"))
		return TCPX_ERR_CHANNEL_LOST;
	if (first < 0 || held < 0 || held > niov - first)
		breach(chan, "send_held", "held pieces beyond the last one");
	if (!check_enter(chan, &chan->tx, "send_held", iov, niov))
		return inner->ops->zerocopy->send_held(inner, iov, niov, first, held, out_bytes);
	status = inner->ops->zerocopy->send_held(inner, iov, niov, first, held, &moved);
	return check_leave(chan, &chan->tx, "send_held", iov, niov, status, moved, out_bytes);
}

static int check_intact(const struct net_chan *base)
{
	const struct check_chan *chan = (const struct check_chan *)base;

	return check_open(base, "intact")
		       ? chan->head.inner->ops->zerocopy->intact(chan->head.inner)
		       : 0;
}

static int check_ended(const struct net_chan *base)
{
	const struct check_chan *chan = (const struct check_chan *)base;

	if (!check_open(base, "ended"))
		return 1;
	if (!atomic_load(&chan->down))
		breach(chan, "ended", "before shutdown");
	return chan->head.inner->ops->zerocopy->ended(chan->head.inner);
}

static void check_purge(struct net_chan *base)
{
	struct check_chan *chan = (struct check_chan *)base;

	if (!check_open(base, "purge"))
		return;
	if (!atomic_load(&chan->down))
		breach(chan, "purge", "before shutdown");
	if (atomic_load(&chan->tx.inside) || atomic_load(&chan->rx.inside))
		breach(chan, "purge", "while a call is under way");
	chan->head.inner->ops->zerocopy->purge(chan->head.inner);
}

static tcpx_status check_lend(struct net_chan *base, const struct iovec *iov, int niov,
			      size_t *out_bytes)
{
	struct check_chan *chan = (struct check_chan *)base;

	return check_move(chan, &chan->tx, "lend", chan->head.inner->ops->loan->lend, iov, niov,
			  out_bytes);
}

static tcpx_status check_recv(struct net_chan *base, const struct iovec *iov, int niov,
			      size_t *out_bytes)
{
	struct check_chan *chan = (struct check_chan *)base;

	return check_move(chan, &chan->rx, "recv", chan->head.inner->ops->recv, iov, niov,
			  out_bytes);
}

static int check_arm(struct net_chan *base, int want_recv, int want_send, uint32_t *out_events)
{
	struct check_chan *chan = (struct check_chan *)base;

	*out_events = 0;
	if (!check_open(base, "arm"))
		return 1;
	return chan->head.inner->ops->arm(chan->head.inner, want_recv, want_send, out_events);
}

static int check_fd(const struct net_chan *base)
{
	const struct check_chan *chan = (const struct check_chan *)base;

	return check_open(base, "fd") ? chan->head.inner->ops->fd(chan->head.inner) : -1;
}

static void check_recv_mark(struct net_chan *base, size_t bytes)
{
	struct check_chan *chan = (struct check_chan *)base;

	if (check_open(base, "recv_mark"))
		chan->head.inner->ops->recv_mark(chan->head.inner, bytes);
}

static void check_shutdown(struct net_chan *base)
{
	struct check_chan *chan = (struct check_chan *)base;

	atomic_store(&chan->down, 1);
	if (check_open(base, "shutdown"))
		chan->head.inner->ops->shutdown(chan->head.inner);
}

static void check_info(const struct net_chan *base, struct net_chan_info *out_info)
{
	const struct check_chan *chan = (const struct check_chan *)base;

	memset(out_info, 0, sizeof(*out_info));
	if (check_open(base, "info"))
		chan->head.inner->ops->info(chan->head.inner, out_info);
}

static void check_trim(struct net_chan *base)
{
	const struct check_chan *chan = (const struct check_chan *)base;

	if (check_open(base, "trim"))
		chan->head.inner->ops->trim(chan->head.inner);
}

/* The inner channel goes; the shell stays a while to catch late calls. */
static void check_close(struct net_chan *base)
{
	struct check_chan *chan = (struct check_chan *)base, *old;

	if (atomic_exchange(&chan->closed, 1)) {
		breach(chan, "close", "twice");
		return;
	}
	if (atomic_load(&chan->tx.inside) || atomic_load(&chan->rx.inside))
		breach(chan, "close", "while a call is under way");
	if (chan->head.ops.loan) {
		struct net_lent lent = {0};

		chan->head.inner->ops->loan->lent(chan->head.inner, 0, &lent);
		if (lent.pieces)
			breach(chan, "close", "while memory is lent");
	}
	chan->head.inner->ops->close(chan->head.inner);
	pthread_mutex_lock(&graves.lock);
	old = graves.chan[graves.next];
	graves.chan[graves.next] = chan;
	graves.next = (graves.next + 1) % CHECK_GRAVES;
	pthread_mutex_unlock(&graves.lock);
	free(old);
}

tcpx_status filter_check_create(struct net_chan *chan, struct net_chan **out_chan)
{
	struct check_chan *check = calloc(1, sizeof(*check));

	if (!check)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "filter check");
	filter_init(&check->head, chan);
	check->head.ops.send = check_send;
	check->head.ops.recv = check_recv;
	check->head.zerocopy.send_held = check_send_held;
	check->head.zerocopy.intact = check_intact;
	check->head.zerocopy.ended = check_ended;
	check->head.zerocopy.purge = check_purge;
	check->head.loan.lend = check_lend;
	check->head.ops.arm = check_arm;
	check->head.ops.fd = check_fd;
	check->head.ops.recv_mark = check_recv_mark;
	check->head.ops.shutdown = check_shutdown;
	check->head.ops.close = check_close;
	check->head.ops.info = check_info;
	check->head.ops.trim = check_trim;
	*out_chan = &check->head.base;
	return TCPX_OK;
}
