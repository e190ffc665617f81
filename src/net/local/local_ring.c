/* SPDX-License-Identifier: Apache-2.0 */
/* The two-copy ring: bytes into our outgoing ring, bytes out of the peer's; loans in between. */
#include <errno.h>

#include "base/law.h"
#include "net/local/local_priv.h"
#include "sys/user.h"

#define PEER_CHECK_EVERY 256 /* fruitless polls between two questions to the socket */

/* The peer's cursors are claims: they may neither run backwards nor past what we know. */
uint64_t local_readable(struct local_chan *chan)
{
	uint64_t head = atomic_load_explicit(&chan->in->head, memory_order_seq_cst);

	if (head - chan->head_seen > chan->tail + chan->ring_bytes - chan->head_seen) {
		local_die(chan, TCPX_ERR_PROTOCOL);
		return 0;
	}
	chan->head_seen = head;
	return head - chan->tail;
}

uint64_t local_room(struct local_chan *chan)
{
	uint64_t tail = atomic_load_explicit(&chan->out->tail, memory_order_seq_cst);

	if (tail - chan->tail_seen > chan->head - chan->tail_seen) {
		local_die(chan, TCPX_ERR_PROTOCOL);
		return 0;
	}
	chan->tail_seen = tail;
	return chan->ring_bytes - (chan->head - tail);
}

static void publish_head(struct local_chan *chan)
{
	uint32_t wait;

	/* First the cursor, then the look at wait; the consumer does it the other way round. */
	atomic_store_explicit(&chan->out->head, chan->head, memory_order_seq_cst);
	wait = atomic_load_explicit(&chan->out->tail_wait, memory_order_seq_cst);
	if (wait && chan->head - chan->tail_seen >= wait)
		local_bell_ring(chan, &chan->out->tail_wait);
}

static void publish_tail(struct local_chan *chan)
{
	uint32_t wait;

	atomic_store_explicit(&chan->in->tail, chan->tail, memory_order_seq_cst);
	wait = atomic_load_explicit(&chan->in->head_wait, memory_order_seq_cst);
	if (wait && wait != LOCAL_WAIT_LOAN &&
	    chan->ring_bytes - (chan->head_seen - chan->tail) >= local_room_mark(chan))
		local_bell_ring(chan, &chan->in->head_wait);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* n <= ring_bytes bytes from src to the ring's place of head, around its end. Returns how many
 * went: fewer where src has vanished. */
static size_t ring_put(struct local_chan *chan, const uint8_t *src, size_t n)
{
	size_t at = chan->head & (chan->ring_bytes - 1);
	size_t first = least(n, chan->ring_bytes - at), rest = n - first;

	if (chan->base.tx_vanishing) {
		n = sys_user_read(chan->out_ring + at, src, first);
		if (n == first)
			n += sys_user_read(chan->out_ring, src + first, rest);
	} else {
		local_copy_in(chan->out_ring + at, src, first);
		local_copy_in(chan->out_ring, src + first, rest);
	}
	chan->head += n;
	return n;
}

static size_t ring_get(struct local_chan *chan, uint8_t *dst, size_t n)
{
	size_t at = chan->tail & (chan->ring_bytes - 1);
	size_t first = least(n, chan->ring_bytes - at), rest = n - first;

	if (chan->base.rx_vanishing) {
		n = sys_user_write(dst, chan->in_ring + at, first);
		if (n == first)
			n += sys_user_write(dst + first, chan->in_ring, rest);
	} else {
		local_copy_out(&chan->heat, dst, chan->in_ring + at, first);
		local_copy_out(&chan->heat, dst + first, chan->in_ring, rest);
	}
	chan->tail += n;
	return n;
}

static tcpx_status tx_end(struct local_chan *chan)
{
	int end = atomic_load_explicit(&chan->end, memory_order_acquire);

	if (!end && atomic_load_explicit(&chan->out->tail_closed, memory_order_acquire))
		local_peer_closed(chan);
	if (!end)
		end = atomic_load_explicit(&chan->gone, memory_order_acquire);
	return (tcpx_status)end;
}

static tcpx_status tx_blocked(struct local_chan *chan, int back)
{
	tcpx_status end;

	if (back)
		local_bell_missed(chan);
	if (back || ++chan->full_count % PEER_CHECK_EVERY == 0)
		local_peer_check(chan);
	end = tx_end(chan);
	return end ? end : TCPX_IN_PROGRESS;
}

/* Copies what goes of n bytes, publishing every piece; returns how many. Memory that has vanished
 * is told by chan->put_failed. */
static size_t put_bytes(struct local_chan *chan, const uint8_t *src, size_t n, uint64_t *published)
{
	size_t left = n, went;

	while (left) {
		uint64_t room = chan->ring_bytes - (chan->head - chan->tail_seen);
		size_t take = least(left, LOCAL_PIECE - (size_t)(chan->head - *published));

		if (!room)
			room = local_room(chan);
		if (!room)
			break;
		take = least(take, room);
		went = ring_put(chan, src, take);
		src += went;
		left -= went;
		chan->put_failed = went < take;
		if (chan->put_failed)
			break;
		if (chan->head - *published == LOCAL_PIECE) {
			publish_head(chan);
			*published = chan->head;
		}
	}
	chan->put += n - left;
	return n - left;
}

/* Puts as much as goes behind what is there already; skip: bytes of iov that are. */
static void put_all(struct local_chan *chan, const struct iovec *iov, int niov, uint64_t skip,
		    int lend)
{
	uint64_t published = chan->head, loans = chan->loan_head;

	for (int i = 0; i < niov; i++) {
		size_t gone = least(skip, iov[i].iov_len), left = iov[i].iov_len - gone;
		const uint8_t *src = (const uint8_t *)iov[i].iov_base + gone;

		skip -= gone;
		if (lend && left >= LOCAL_LEND_MIN && local_loan_may(chan)) {
			if (local_loan_make(chan, src, left))
				continue;
			if (local_lent_count(chan)) /* a place comes free */
				break;
		}
		if (left && put_bytes(chan, src, left, &published) < left)
			break;
	}
	if (chan->head != published)
		publish_head(chan);
	if (chan->loan_head != loans &&
	    atomic_load_explicit(&chan->out->tail_wait, memory_order_seq_cst))
		local_bell_ring(chan, &chan->out->tail_wait);
}

/* Send and lend: a byte counts when its memory is the caller's again. */
static tcpx_status move_out(struct local_chan *chan, const struct iovec *iov, int niov, int lend,
			    size_t *out_bytes)
{
	int back = local_bell_back(chan, LOCAL_TX);
	tcpx_status end = tx_end(chan);
	uint64_t home;
	size_t offered = 0;

	if (end)
		return end;
	if (local_loan_settle(chan)) {
		errno = EFAULT;
		return TCPX_ERR_INVALID;
	}
	chan->put_failed = 0;
	put_all(chan, iov, niov, chan->put - chan->counted, lend);
	home = local_lent_count(chan) ? chan->lent[chan->loan_first % LOCAL_LOANS].begin
				      : chan->put;
	home -= chan->counted;
	for (int i = 0; i < niov && offered < home; i++)
		offered += iov[i].iov_len;
	if ((!home || !offered) && chan->put_failed) {
		errno = EFAULT;
		return TCPX_ERR_INVALID;
	}
	if (!home || !offered)
		return tx_blocked(chan, back);
	chan->full_count = 0;
	*out_bytes = least(home, offered);
	chan->counted += *out_bytes;
	return TCPX_OK;
}

tcpx_status local_send(struct net_chan *base, const struct iovec *iov, int niov, size_t *out_bytes)
{
	law_free("local_send");
	return move_out((struct local_chan *)base, iov, niov, 0, out_bytes);
}

tcpx_status local_lend(struct net_chan *base, const struct iovec *iov, int niov, size_t *out_bytes)
{
	struct local_chan *chan = (struct local_chan *)base;
	int lend = chan->lend_to && atomic_load_explicit(chan->lend_ok, memory_order_acquire) != 0;

	law_free("local_lend");
	return move_out(chan, iov, niov, lend, out_bytes);
}

/* Bytes of the ring before the next loan. */
static uint64_t rx_avail(struct local_chan *chan)
{
	uint64_t there = chan->head_seen - chan->tail;

	if (!there)
		there = local_readable(chan);
	/* The producer made a loan before it published a byte behind it: seen after the bytes. */
	if (chan->borrow && local_loan_look(chan) && chan->loan.at - chan->tail < there)
		there = chan->loan.at - chan->tail;
	return there;
}

static int loan_due(const struct local_chan *chan)
{
	return chan->loan.known && chan->loan.at == chan->tail;
}

/* The ring is empty: is that all there will ever be? */
static tcpx_status rx_empty(struct local_chan *chan, int back)
{
	int gone, end;

	if (back)
		local_bell_missed(chan);
	if (atomic_load_explicit(&chan->in->head_closed, memory_order_acquire))
		local_peer_closed(chan);
	else if (back || ++chan->empty_count % PEER_CHECK_EVERY == 0)
		local_peer_check(chan);
	/* What the peer published last came before its end: look once more after having seen it. */
	gone = atomic_load_explicit(&chan->gone, memory_order_acquire);
	if (gone && (rx_avail(chan) || loan_due(chan)))
		return TCPX_OK;
	end = atomic_load_explicit(&chan->end, memory_order_acquire);
	if (!end)
		end = gone;
	return end ? (tcpx_status)end : TCPX_IN_PROGRESS;
}

tcpx_status local_recv(struct net_chan *base, const struct iovec *iov, int niov, size_t *out_bytes)
{
	struct local_chan *chan = (struct local_chan *)base;
	int back = local_bell_back(chan, LOCAL_RX);
	int end = atomic_load_explicit(&chan->end, memory_order_acquire);
	uint64_t avail, begin = chan->tail, published = begin;

	law_free("local_recv");
	if (end)
		return (tcpx_status)end;
	if (chan->probe_due)
		local_share_probe(chan);
	avail = rx_avail(chan);
	if (!avail && !loan_due(chan)) {
		tcpx_status status = rx_empty(chan, back);

		if (status)
			return status;
		avail = rx_avail(chan);
	}
	if (!avail) {
		chan->empty_count = 0;
		return local_loan_recv(chan, iov, niov, out_bytes);
	}
	chan->empty_count = 0;
	for (int i = 0; i < niov; i++) {
		uint8_t *dst = iov[i].iov_base;
		size_t left = iov[i].iov_len;

		while (left) {
			size_t n = least(left, LOCAL_PIECE - (size_t)(chan->tail - published));
			size_t got;

			if (!avail)
				avail = rx_avail(chan);
			if (!avail)
				goto out;
			n = least(n, avail);
			got = ring_get(chan, dst, n);
			dst += got;
			left -= got;
			avail -= got;
			if (got < n)
				goto out; /* the caller's memory has vanished */
			if (chan->tail - published == LOCAL_PIECE) {
				publish_tail(chan);
				published = chan->tail;
			}
		}
	}
out:
	if (chan->tail != published)
		publish_tail(chan);
	if (chan->tail == begin) {
		errno = EFAULT;
		return TCPX_ERR_INVALID;
	}
	*out_bytes = (size_t)(chan->tail - begin);
	return TCPX_OK;
}
