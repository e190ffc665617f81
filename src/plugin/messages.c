/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin channel: implements the operations of a channel with a guide and two comms. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "plugin/messages_priv.h"
#include "sys/user.h"

static struct messages *messages_of(struct net_chan *chan)
{
	return (struct messages *)chan;
}

static tcpx_status messages_fail(struct messages *m, tcpx_status status)
{
	m->failed = status;
	return status;
}

/* Copies bytes of the stream to the memory of recv's caller. Returns the number of bytes copied,
 * which is less than `bytes` if that memory has vanished. */
static uint32_t messages_copy_out(const struct messages *m, void *to, const void *from,
				  uint32_t bytes)
{
	if (m->chan.rx_vanishing)
		return (uint32_t)sys_user_write(to, from, bytes);
	memcpy(to, from, bytes);
	return bytes;
}

/* net_ops.recv: lets the plugin progress, then copies as much of the stream as is ready and fits.
 * Returns ERR_INVALID if nothing could be copied because the caller's memory has vanished. The
 * error with which the guide ended is returned when no bytes are ready and no receive is posted. An
 * error of messages_move() is returned at once. */
static tcpx_status messages_recv(struct net_chan *chan, const struct iovec *iov, int niov,
				 size_t *out_bytes)
{
	struct messages *m = messages_of(chan);
	size_t total = 0, off = 0;
	const uint8_t *from;
	uint32_t bytes, got;

	if (m->failed != TCPX_OK || (m->failed = messages_move(m)) != TCPX_OK)
		return m->failed;
	while (niov && (bytes = messages_next(m, &from))) {
		size_t room = iov->iov_len - off;

		bytes = bytes < room ? bytes : (uint32_t)room;
		got = messages_copy_out(m, (uint8_t *)iov->iov_base + off, from, bytes);
		if (!got && !total)
			return TCPX_ERR_INVALID;
		total += got;
		off += got;
		m->failed = messages_given(m, got);
		if (m->failed != TCPX_OK || got < bytes)
			break; /* the next call returns the error */
		if (off < iov->iov_len)
			continue;
		iov++;
		niov--;
		off = 0;
	}
	if (total) {
		*out_bytes = total;
		return TCPX_OK;
	}
	if (m->failed != TCPX_OK)
		return m->failed;
	return m->ended != TCPX_OK && !m->posted ? messages_fail(m, m->ended) : TCPX_IN_PROGRESS;
}

static tcpx_status messages_send(struct net_chan *chan, const struct iovec *iov, int niov,
				 size_t *out_bytes)
{
	struct messages *m = messages_of(chan);

	return m->o.guide->ops->send(m->o.guide, iov, niov, out_bytes);
}

/* Called when the plugin did not accept a message to send. Returns IN_PROGRESS if the caller must
 * try again. Returns ERR_CHANNEL_LOST if the plugin has accepted no message for the message
 * timeout. */
static tcpx_status messages_put_off(struct messages *m)
{
	int64_t now_ns = clock_now_ns();
	int64_t since_ns = atomic_load_explicit(&m->put_off_ns, memory_order_relaxed);

	if (!since_ns)
		atomic_store_explicit(&m->put_off_ns, since_ns = now_ns, memory_order_relaxed);
	if (now_ns - since_ns <= m->o.timeout_ns)
		return TCPX_IN_PROGRESS;
	return error_set(
		TCPX_ERR_CHANNEL_LOST, 0,
		"the plugin took no message for %lld ms (tcpx-gpudirect(7), OTHER PLUGINS)",
		(long long)((now_ns - since_ns) / CLOCK_MS_NS));
}

/* net_message_ops.post: passes the payload of a frame to the plugin, as the next message of the
 * comm `out`. */
static tcpx_status messages_post(struct net_chan *chan, void *mr, const void *data,
				 const struct frame *frame)
{
	struct messages *m = messages_of(chan);
	uint64_t number;
	tcpx_status status;

	if (m->failed != TCPX_OK)
		return m->failed;
	status = net_comm_send(m->o.out, mr, data, frame->payload_bytes, &number);
	if (status == TCPX_OK) {
		atomic_store_explicit(&m->put_off_ns, 0, memory_order_relaxed);
		m->sent[number % NET_COMM_WINDOW] =
			(struct sent){frame->seq, frame->linear, frame->payload_bytes, frame->type};
		message_counted(&m->counts.sends_posted);
		LOG(TCPX_LOG_TRACE,
		    "[PERF][CLIENT] chunk_idx=%llu tag=%u size=%u offset=%llu frame=%llu",
		    (unsigned long long)number, net_comm_tag(number), frame->payload_bytes,
		    (unsigned long long)frame->linear, (unsigned long long)frame->seq);
		if (!m->sending++)
			m->sent_ns = clock_now_ns();
		return TCPX_OK;
	}
	if (status == TCPX_IN_PROGRESS)
		status = messages_put_off(m);
	if (status == TCPX_IN_PROGRESS || status == TCPX_ERR_AGAIN)
		return TCPX_IN_PROGRESS;
	return messages_fail(m, status);
}

/* Returns the message of the frame with that sequence number, or NULL if it is not among the
 * messages that the user may take. */
static struct taken *taken_find(struct messages *m, uint64_t seq)
{
	for (uint64_t i = m->gives; i < m->takes; i++)
		if (m->taken[i % NET_COMM_WINDOW].seq == seq)
			return &m->taken[i % NET_COMM_WINDOW];
	return NULL;
}

static tcpx_status messages_take(struct net_chan *chan, uint64_t seq,
				 struct net_message *out_message)
{
	struct messages *m = messages_of(chan);
	const struct taken *taken = taken_find(m, seq);
	unsigned slot;

	if (!taken)
		return error_set(TCPX_ERR_STATE, 0,
				 "frame %llu has no message that waits to be taken",
				 (unsigned long long)seq);
	if (m->o.whole) {
		*out_message = (struct net_message){.frags = &taken->whole,
						    .nfrags = 1,
						    .pool = m->o.pool,
						    .pool_bytes = m->o.pool_bytes};
		return TCPX_OK;
	}
	slot = net_comm_slot(m->o.in, taken->number);
	*out_message =
		(struct net_message){.frags = (const struct base_frag *)m->o.meta->pieces[slot],
				     .nfrags = *(const volatile uint64_t *)&m->o.meta->count[slot],
				     .pool = m->o.pool,
				     .pool_bytes = m->o.pool_bytes};
	return TCPX_OK;
}

/* net_message_ops.give: the user no longer reads the message of that frame. The user may give
 * messages back in any order. The plugin gets them back (consumed) in the order of their frames, so
 * a message is kept until all earlier ones have been given back. */
static void messages_give(struct net_chan *chan, uint64_t seq)
{
	struct messages *m = messages_of(chan);
	struct taken *taken = taken_find(m, seq);

	if (taken && !taken->given) {
		taken->given = true;
		message_counted(&m->counts.unpacked);
	}
	while (m->gives < m->takes && m->failed == TCPX_OK) {
		taken = &m->taken[m->gives % NET_COMM_WINDOW];
		if (!taken->given)
			return;
		m->failed = net_comm_consumed(m->o.in, taken->number);
		if (m->failed == TCPX_OK)
			message_counted(&m->counts.consumed);
		m->gives++;
		m->messages--;
	}
}

/* Whether arm must forbid sleep: recv has bytes or an error to return, a frame of the guide is not
 * handled yet, or a message is not done. Messages progress only when recv calls the plugin. */
static bool messages_must_poll(struct messages *m)
{
	if (m->failed != TCPX_OK || m->posted || m->sending || messages_ready(m))
		return true;
	for (uint32_t i = 0; i < m->count; i++)
		if (waiting_at(m, i)->bytes && !waiting_at(m, i)->posted)
			return true;
	return m->have >= FRAME_HEADER_BYTES;
}

static int messages_arm(struct net_chan *chan, int want_recv, int want_send, uint32_t *out_events)
{
	struct messages *m = messages_of(chan);

	if (want_recv > 0 && messages_must_poll(m))
		return 1;
	return m->o.guide->ops->arm(m->o.guide, want_recv, want_send, out_events);
}

static int messages_fd(const struct net_chan *chan)
{
	const struct messages *m = (const struct messages *)chan;

	return m->o.guide->ops->fd(m->o.guide);
}

static void messages_shutdown(struct net_chan *chan)
{
	messages_of(chan)->o.guide->ops->shutdown(messages_of(chan)->o.guide);
}

static void messages_close(struct net_chan *chan)
{
	struct messages *m = messages_of(chan);

	messages_pool_leave(&m->pool);
	m->o.guide->ops->close(m->o.guide);
	free(m);
}

static void messages_info(const struct net_chan *chan, struct net_chan_info *out_info)
{
	const struct messages *m = (const struct messages *)chan;
	int64_t sent_ns = atomic_load_explicit(&m->sent_ns, memory_order_relaxed);
	int64_t put_off_ns = atomic_load_explicit(&m->put_off_ns, memory_order_relaxed);

	m->o.guide->ops->info(m->o.guide, out_info);
	if (put_off_ns && (!sent_ns || put_off_ns < sent_ns))
		sent_ns = put_off_ns;
	if (sent_ns)
		out_info->stuck_ns = (uint64_t)(clock_now_ns() - sent_ns);
#define COUNT(name)                                                                                \
	(out_info->messages.name = atomic_load_explicit(&m->counts.name, memory_order_relaxed))
	/* Later stages are read first, so that no stage shows more messages than the stage before
	 * it. */
	COUNT(sends_done), COUNT(sends_posted);
	COUNT(consumed), COUNT(unpacked), COUNT(done), COUNT(posted);
#undef COUNT
}

static const struct net_message_ops messages_message = {
	.post = messages_post,
	.take = messages_take,
	.give = messages_give,
};

static const struct net_ops messages_ops = {
	.name = "plugin",
	.send = messages_send,
	.recv = messages_recv,
	.arm = messages_arm,
	.fd = messages_fd,
	.recv_mark = net_none_recv_mark,
	.shutdown = messages_shutdown,
	.close = messages_close,
	.info = messages_info,
	.trim = net_none_trim,
	.message = &messages_message,
};

tcpx_status net_messages_open(const struct net_messages_opts *opts, struct net_chan **out_chan)
{
	struct messages *m;

	if (!opts->window || opts->window > NET_COMM_WINDOW || !opts->message_bytes ||
	    opts->message_bytes > FRAME_PAYLOAD_MAX || opts->timeout_ns <= 0)
		return error_set(TCPX_ERR_INVALID, 0,
				 "a plugin channel cannot have a window of %u messages of %u bytes",
				 opts->window, opts->message_bytes);
	m = calloc(1, sizeof(*m));
	if (!m)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a plugin channel");
	m->o = *opts;
	if (!opts->bounce &&
	    messages_pool_join(&m->pool, opts->pool, opts->pool_bytes,
			       (uint64_t)opts->window * opts->message_bytes) != TCPX_OK) {
		free(m);
		return TCPX_ERR_NO_MEMORY;
	}
	m->chan.ops = &messages_ops;
	*out_chan = &m->chan;
	return TCPX_OK;
}
