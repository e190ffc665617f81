/* SPDX-License-Identifier: Apache-2.0 */
/* A channel that passes each call on to an inner channel, and records the calls that send or
 * receive bytes of the stream. Messages of a plugin are not recorded. */
#include "engine/channel/chan_traced.h"

#include <stdlib.h>

#include "base/config.h"
#include "base/error.h"
#include "trace/observe.h"
#include "trace/start.h"

struct traced_chan {
	struct net_chan base;
	struct net_chan *inner;
	struct net_ops ops; /* has the same optional tables as inner->ops */
	char out, in;	    /* only their addresses are used, as ids of the two directions */
};

static struct traced_chan *traced_of(const struct net_chan *chan)
{
	return (struct traced_chan *)chan;
}

static struct net_chan *traced_inner(const struct net_chan *chan)
{
	return traced_of(chan)->inner;
}

static struct net_chan *traced_tx(struct net_chan *chan)
{
	traced_inner(chan)->tx_vanishing = chan->tx_vanishing;
	return traced_inner(chan);
}

static void traced_ended(struct trace_span *span, tcpx_status status, const size_t *bytes)
{
	trace_streamed(span, status == TCPX_OK ? (int64_t)*bytes : 0,
		       status == TCPX_OK || status == TCPX_IN_PROGRESS ? 0 : (int)status);
}

static tcpx_status traced_send(struct net_chan *chan, const struct iovec *iov, int niov,
			       size_t *out_bytes)
{
	struct net_chan *inner = traced_tx(chan);
	struct trace_span span;
	tcpx_status status;

	trace_begin(&span, TRACE_STREAM_SEND, &traced_of(chan)->out);
	status = inner->ops->send(inner, iov, niov, out_bytes);
	traced_ended(&span, status, out_bytes);
	return status;
}

static tcpx_status traced_send_held(struct net_chan *chan, const struct iovec *iov, int niov,
				    int first, int held, size_t *out_bytes)
{
	struct net_chan *inner = traced_tx(chan);
	struct trace_span span;
	tcpx_status status;

	trace_begin(&span, TRACE_STREAM_SEND, &traced_of(chan)->out);
	status = inner->ops->zerocopy->send_held(inner, iov, niov, first, held, out_bytes);
	traced_ended(&span, status, out_bytes);
	return status;
}

static tcpx_status traced_lend(struct net_chan *chan, const struct iovec *iov, int niov,
			       size_t *out_bytes)
{
	struct net_chan *inner = traced_tx(chan);
	struct trace_span span;
	tcpx_status status;

	trace_begin(&span, TRACE_STREAM_SEND, &traced_of(chan)->out);
	status = inner->ops->loan->lend(inner, iov, niov, out_bytes);
	traced_ended(&span, status, out_bytes);
	return status;
}

static tcpx_status traced_recv(struct net_chan *chan, const struct iovec *iov, int niov,
			       size_t *out_bytes)
{
	struct net_chan *inner = traced_inner(chan);
	struct trace_span span;
	tcpx_status status;

	inner->rx_vanishing = chan->rx_vanishing;
	trace_begin(&span, TRACE_STREAM_RECV, &traced_of(chan)->in);
	status = inner->ops->recv(inner, iov, niov, out_bytes);
	traced_ended(&span, status, out_bytes);
	return status;
}

static int traced_intact(const struct net_chan *chan)
{
	return traced_inner(chan)->ops->zerocopy->intact(traced_inner(chan));
}

static int traced_peer_ended(const struct net_chan *chan)
{
	return traced_inner(chan)->ops->zerocopy->ended(traced_inner(chan));
}

static void traced_purge(struct net_chan *chan)
{
	traced_inner(chan)->ops->zerocopy->purge(traced_inner(chan));
}

static int traced_lends(const struct net_chan *chan)
{
	return traced_inner(chan)->ops->loan->lends(traced_inner(chan));
}

static void traced_lent(struct net_chan *chan, int take_back, struct net_lent *out_lent)
{
	traced_inner(chan)->ops->loan->lent(traced_inner(chan), take_back, out_lent);
}

static int traced_torn(struct net_chan *chan)
{
	return traced_inner(chan)->ops->loan->torn(traced_inner(chan));
}

static void traced_reading_set(struct net_chan *chan, int on)
{
	traced_inner(chan)->ops->reading->set(traced_inner(chan), on);
}

static int traced_reading_peer(struct net_chan *chan)
{
	return traced_inner(chan)->ops->reading->peer(traced_inner(chan));
}

static tcpx_status traced_post(struct net_chan *chan, void *mr, const void *data,
			       const struct frame *frame)
{
	return traced_inner(chan)->ops->message->post(traced_inner(chan), mr, data, frame);
}

static tcpx_status traced_message_take(struct net_chan *chan, uint64_t seq,
				       struct net_message *out_message)
{
	return traced_inner(chan)->ops->message->take(traced_inner(chan), seq, out_message);
}

static void traced_give(struct net_chan *chan, uint64_t seq)
{
	traced_inner(chan)->ops->message->give(traced_inner(chan), seq);
}

static int traced_arm(struct net_chan *chan, int want_recv, int want_send, uint32_t *out_events)
{
	return traced_inner(chan)->ops->arm(traced_inner(chan), want_recv, want_send, out_events);
}

static int traced_fd(const struct net_chan *chan)
{
	return traced_inner(chan)->ops->fd(traced_inner(chan));
}

static void traced_recv_mark(struct net_chan *chan, size_t bytes)
{
	traced_inner(chan)->ops->recv_mark(traced_inner(chan), bytes);
}

static void traced_shutdown(struct net_chan *chan)
{
	traced_inner(chan)->ops->shutdown(traced_inner(chan));
}

static void traced_close(struct net_chan *chan)
{
	trace_stream_closed(&traced_of(chan)->out);
	trace_stream_closed(&traced_of(chan)->in);
	traced_inner(chan)->ops->close(traced_inner(chan));
	free(chan);
}

static void traced_info(const struct net_chan *chan, struct net_chan_info *out_info)
{
	traced_inner(chan)->ops->info(traced_inner(chan), out_info);
}

static void traced_trim(struct net_chan *chan)
{
	traced_inner(chan)->ops->trim(traced_inner(chan));
}

static const struct net_zerocopy_ops traced_zerocopy = {
	.send_held = traced_send_held,
	.intact = traced_intact,
	.ended = traced_peer_ended,
	.purge = traced_purge,
};

static const struct net_loan_ops traced_loan = {
	.lends = traced_lends,
	.lend = traced_lend,
	.lent = traced_lent,
	.torn = traced_torn,
};

static const struct net_reading_ops traced_reading = {
	.set = traced_reading_set,
	.peer = traced_reading_peer,
};

static const struct net_message_ops traced_message = {
	.post = traced_post,
	.take = traced_message_take,
	.give = traced_give,
};

/* Sets only the optional tables (zerocopy, loan and so on) that the inner channel has, so that the
 * new channel offers the same. */
struct net_chan *chan_traced(struct net_chan *chan)
{
	const struct net_ops *ops = chan->ops;
	static _Atomic int warned;
	struct traced_chan *traced;
	char why[300];

	if (!*config_text(CONFIG_TRACE) || *config_text(CONFIG_TRACE_PLUGIN))
		return chan;
	if (!trace_start(why, sizeof(why))) {
		if (!atomic_exchange_explicit(&warned, 1, memory_order_relaxed))
			LOG_WARN("no trace of channels: %s", why);
		return chan;
	}
	traced = calloc(1, sizeof(*traced));
	if (!traced)
		return chan;
	traced->inner = chan;
	traced->ops = (struct net_ops){
		.name = ops->name,
		.caps = ops->caps,
		.send = traced_send,
		.recv = traced_recv,
		.arm = traced_arm,
		.fd = traced_fd,
		.recv_mark = traced_recv_mark,
		.shutdown = traced_shutdown,
		.close = traced_close,
		.info = traced_info,
		.trim = traced_trim,
		.zerocopy = ops->zerocopy ? &traced_zerocopy : NULL,
		.loan = ops->loan ? &traced_loan : NULL,
		.reading = ops->reading ? &traced_reading : NULL,
		.message = ops->message ? &traced_message : NULL,
	};
	traced->base.ops = &traced->ops;
	trace_stream_opened(&traced->out, TRACE_STREAM_SEND);
	trace_stream_opened(&traced->in, TRACE_STREAM_RECV);
	return &traced->base;
}
