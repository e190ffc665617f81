/* SPDX-License-Identifier: Apache-2.0 */
/* The filter that makes things go wrong: short calls, lost channels, flipped bytes, delays. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "base/rng.h"
#include "parts/filter_priv.h"

#define MIB (1ull << 20)

/* One direction; its owner's alone. */
struct fault_side {
	struct rng rng;
	uint64_t bytes;
	int again; /* the last call said IN_PROGRESS for nothing: never twice in a row */
	int ended; /* the channel failed: the truth from here on */
	/* Bytes that were offered as held and not counted: the transport may have them already, so
	 * the next call offers so many at least. */
	size_t ahead;
	struct iovec iov[NET_IOV_MAX];
};

struct fault_chan {
	struct filter_chan head;
	struct filter_fault_opts opts;
	uint64_t drop_at, flip_at; /* bytes; 0: never */
	_Atomic uint64_t bytes;	   /* both ways */
	_Atomic int dropped;
	struct fault_side tx, rx;
};

static _Atomic uint64_t fault_ordinal;

/* About n MiB: three quarters to five quarters of it. */
static uint64_t about(struct rng *rng, uint64_t n)
{
	return n ? n * MIB * 3 / 4 + rng_below(rng, n * MIB / 2) : 0;
}

static int percent(struct rng *rng, uint64_t p)
{
	return p && rng_below(rng, 100) < p;
}

/* What goes wrong before the call; how many of total bytes it may move, 0: say IN_PROGRESS. */
static size_t fault_before(struct fault_chan *chan, struct fault_side *side, size_t total)
{
	if (chan->opts.delay && rng_one_in(&side->rng, 8)) {
		uint64_t us = rng_below(&side->rng, chan->opts.delay + 1);
		struct timespec pause = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

		nanosleep(&pause, NULL);
	}
	side->again = !side->again && !side->ended && percent(&side->rng, chan->opts.again);
	if (side->again)
		return 0;
	if (total && percent(&side->rng, chan->opts.short_calls))
		return 1 + rng_below(&side->rng, total);
	return total;
}

static void fault_after(struct fault_chan *chan, size_t bytes)
{
	uint64_t before = atomic_fetch_add(&chan->bytes, bytes);

	if (chan->drop_at && before + bytes >= chan->drop_at && !atomic_exchange(&chan->dropped, 1))
		chan->head.inner->ops->shutdown(chan->head.inner);
}

/* Cuts what the next call of the sending side offers. OK, or what that call returns at once. */
static tcpx_status fault_offer(struct fault_chan *chan, const struct iovec **iov, int *niov,
			       size_t *out_bytes)
{
	size_t total = filter_iov_bytes(*iov, *niov), most;

	if (atomic_load(&chan->dropped))
		return TCPX_ERR_PEER_RESET;
	most = fault_before(chan, &chan->tx, total);
	if (!most)
		return TCPX_IN_PROGRESS;
	if (most < chan->tx.ahead)
		most = chan->tx.ahead < total ? chan->tx.ahead : total;
	if (most < total) {
		*niov = filter_iov_cut(*iov, *niov, most, chan->tx.iov);
		*iov = chan->tx.iov;
	}
	*out_bytes = most;
	return TCPX_OK;
}

static tcpx_status fault_sent(struct fault_chan *chan, tcpx_status status, size_t bytes)
{
	if (!status)
		fault_after(chan, bytes);
	chan->tx.ended |= status <= TCPX_ERR_CHANNEL_LOST;
	return status;
}

/* op: send or lend of the inner one. */
static tcpx_status fault_out(struct fault_chan *chan,
			     tcpx_status (*op)(struct net_chan *, const struct iovec *, int,
					       size_t *),
			     const struct iovec *iov, int niov, size_t *out_bytes)
{
	size_t offered;
	tcpx_status status = fault_offer(chan, &iov, &niov, &offered);

	if (status)
		return status;
	status = op(filter_tx(&chan->head), iov, niov, out_bytes);
	if (!status)
		chan->tx.ahead -= *out_bytes < chan->tx.ahead ? *out_bytes : chan->tx.ahead;
	return fault_sent(chan, status, status ? 0 : *out_bytes);
}

static tcpx_status fault_send_held(struct net_chan *base, const struct iovec *iov, int niov,
				   int first, int held, size_t *out_bytes)
{
	struct fault_chan *chan = (struct fault_chan *)base;
	struct net_chan *inner = filter_tx(&chan->head);
	size_t offered;
	tcpx_status status = fault_offer(chan, &iov, &niov, &offered);

	if (status)
		return status;
	if (first > niov)
		first = niov;
	if (held > niov - first)
		held = niov - first;
	status = inner->ops->zerocopy->send_held(inner, iov, niov, first, held, out_bytes);
	chan->tx.ahead = status ? offered : offered - *out_bytes;
	return fault_sent(chan, status, status ? 0 : *out_bytes);
}

static tcpx_status fault_send(struct net_chan *base, const struct iovec *iov, int niov,
			      size_t *out_bytes)
{
	struct fault_chan *chan = (struct fault_chan *)base;

	return fault_out(chan, chan->head.inner->ops->send, iov, niov, out_bytes);
}

static tcpx_status fault_lend(struct net_chan *base, const struct iovec *iov, int niov,
			      size_t *out_bytes)
{
	struct fault_chan *chan = (struct fault_chan *)base;

	return fault_out(chan, chan->head.inner->ops->loan->lend, iov, niov, out_bytes);
}

static void flip_byte(struct fault_side *side, const struct iovec *iov, size_t bytes)
{
	size_t at = rng_below(&side->rng, bytes);

	for (; at >= iov->iov_len; iov++)
		at -= iov->iov_len;
	((uint8_t *)iov->iov_base)[at] ^= 1u << rng_below(&side->rng, 8);
}

static tcpx_status fault_recv(struct net_chan *base, const struct iovec *iov, int niov,
			      size_t *out_bytes)
{
	struct fault_chan *chan = (struct fault_chan *)base;
	struct net_chan *inner = filter_rx(&chan->head);
	size_t total = filter_iov_bytes(iov, niov), most;
	tcpx_status status;

	if (atomic_load(&chan->dropped))
		return TCPX_ERR_PEER_RESET;
	most = fault_before(chan, &chan->rx, total);
	if (!most)
		return TCPX_IN_PROGRESS;
	if (most < total) {
		niov = filter_iov_cut(iov, niov, most, chan->rx.iov);
		iov = chan->rx.iov;
	}
	status = inner->ops->recv(inner, iov, niov, out_bytes);
	chan->rx.ended |= status <= TCPX_ERR_CHANNEL_LOST;
	if (status)
		return status;
	chan->rx.bytes += *out_bytes;
	if (chan->flip_at && chan->rx.bytes >= chan->flip_at) {
		flip_byte(&chan->rx, iov, *out_bytes);
		chan->flip_at = 0;
	}
	fault_after(chan, *out_bytes);
	return TCPX_OK;
}

static int fault_arm(struct net_chan *base, int want_recv, int want_send, uint32_t *out_events)
{
	struct fault_chan *chan = (struct fault_chan *)base;
	struct net_chan *inner = chan->head.inner;
	int ready = inner->ops->arm(inner, want_recv, want_send, out_events);

	return ready || atomic_load(&chan->dropped);
}

tcpx_status filter_fault_create(const struct filter_fault_opts *opts, struct net_chan *chan,
				struct net_chan **out_chan)
{
	uint64_t ordinal = atomic_fetch_add(&fault_ordinal, 1);
	struct fault_chan *fault;

	if (opts->first && ordinal) {
		*out_chan = chan;
		return TCPX_OK;
	}
	fault = calloc(1, sizeof(*fault));
	if (!fault)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "filter fault");
	filter_init(&fault->head, chan);
	fault->head.ops.send = fault_send;
	fault->head.ops.recv = fault_recv;
	fault->head.zerocopy.send_held = fault_send_held;
	fault->head.loan.lend = fault_lend;
	fault->head.ops.arm = fault_arm;
	fault->opts = *opts;
	rng_seed(&fault->tx.rng, opts->seed + 2 * ordinal);
	rng_seed(&fault->rx.rng, opts->seed + 2 * ordinal + 1);
	fault->drop_at = about(&fault->tx.rng, opts->drop);
	fault->flip_at = about(&fault->rx.rng, opts->flip);
	*out_chan = &fault->head.base;
	return TCPX_OK;
}
