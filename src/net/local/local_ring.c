/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives on a same-host channel: copies bytes into this side's ring and out of the
 * peer's ring, and makes and reads loans at their positions in the stream. */
#include <errno.h>

#include "base/law.h"
#include "net/local/local_priv.h"
#include "sys/user.h"

#define PEER_CHECK_EVERY 256 /* calls without progress between two checks of the socket */

/* Returns the number of readable bytes in the ring. The peer's cursor is untrusted: if it
 * decreases, or claims more bytes than the ring has, the channel ends. */
uint64_t local_readable(struct local_chan *chan)
{
	uint64_t head = atomic_load_explicit(&chan->in->head, memory_order_seq_cst);

	if (head - chan->rx.head_seen > chan->rx.tail + chan->ring_bytes - chan->rx.head_seen) {
		local_die(chan, TCPX_ERR_PROTOCOL);
		return 0;
	}
	chan->rx.head_seen = head;
	return head - chan->rx.tail;
}

uint64_t local_room(struct local_chan *chan)
{
	uint64_t tail = atomic_load_explicit(&chan->out->tail, memory_order_seq_cst);

	if (tail - chan->tx.tail_seen > chan->tx.head - chan->tx.tail_seen) {
		local_die(chan, TCPX_ERR_PROTOCOL);
		return 0;
	}
	chan->tx.tail_seen = tail;
	return chan->ring_bytes - (chan->tx.head - tail);
}

/* Publishes tx.head. Wakes the consumer if it sleeps and the ring holds the number of bytes that it
 * waits for. */
static void publish_head(struct local_chan *chan)
{
	uint32_t wait;

	/* This side stores the cursor and then reads the wait word; the consumer stores the wait
	 * word and then reads the cursor. So this side sees the wait word, or the consumer sees the
	 * new cursor. */
	atomic_store_explicit(&chan->out->head, chan->tx.head, memory_order_seq_cst);
	wait = atomic_load_explicit(&chan->out->tail_wait, memory_order_seq_cst);
	if (wait && chan->tx.head - chan->tx.tail_seen >= wait)
		local_bell_ring(chan, &chan->out->tail_wait);
}

/* Publishes rx.tail. Wakes the producer if it sleeps for room and enough bytes are free. */
static void publish_tail(struct local_chan *chan)
{
	uint32_t wait;

	atomic_store_explicit(&chan->in->tail, chan->rx.tail, memory_order_seq_cst);
	wait = atomic_load_explicit(&chan->in->head_wait, memory_order_seq_cst);
	if (wait && wait != LOCAL_WAIT_LOAN &&
	    chan->ring_bytes - (chan->rx.head_seen - chan->rx.tail) >= local_room_mark(chan))
		local_bell_ring(chan, &chan->in->head_wait);
}

static size_t smaller_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Copies n bytes from src into the ring at tx.head, wraps at the end of the ring, and advances
 * tx.head. The ring must have room for n bytes. Returns the number of bytes copied, which is less
 * than n if src can no longer be read. */
static size_t ring_put(struct local_chan *chan, const uint8_t *src, size_t n)
{
	size_t at = chan->tx.head & (chan->ring_bytes - 1);
	size_t first = smaller_size(n, chan->ring_bytes - at), rest = n - first;

	if (chan->base.tx_vanishing) {
		n = sys_user_read(chan->out_ring + at, src, first);
		if (n == first)
			n += sys_user_read(chan->out_ring, src + first, rest);
	} else {
		local_copy_in(chan->out_ring + at, src, first);
		local_copy_in(chan->out_ring, src + first, rest);
	}
	chan->tx.head += n;
	return n;
}

/* Copies n bytes from the ring at rx.tail to dst, wraps at the end of the ring, and advances
 * rx.tail. The ring must contain n bytes. Returns the number of bytes copied, which is less than n
 * if dst can no longer be written. */
static size_t ring_get(struct local_chan *chan, uint8_t *dst, size_t n)
{
	size_t at = chan->rx.tail & (chan->ring_bytes - 1);
	size_t first = smaller_size(n, chan->ring_bytes - at), rest = n - first;

	if (chan->base.rx_vanishing) {
		n = sys_user_write(dst, chan->in_ring + at, first);
		if (n == first)
			n += sys_user_write(dst + first, chan->in_ring, rest);
	} else {
		local_copy_out(&chan->rx.heat, dst, chan->in_ring + at, first);
		local_copy_out(&chan->rx.heat, dst + first, chan->in_ring, rest);
	}
	chan->rx.tail += n;
	return n;
}

/* Returns the status with which sending has ended, or 0 if it has not ended. */
static tcpx_status tx_status(struct local_chan *chan)
{
	int end = atomic_load_explicit(&chan->end, memory_order_acquire);

	if (!end && atomic_load_explicit(&chan->out->tail_closed, memory_order_acquire))
		local_peer_closed(chan);
	if (!end)
		end = atomic_load_explicit(&chan->gone, memory_order_acquire);
	return (tcpx_status)end;
}

/* Returns IN_PROGRESS, or the status with which the channel ended. Called when nothing can be sent.
 * `back` is the result of local_bell_back. */
static tcpx_status tx_blocked(struct local_chan *chan, int back)
{
	tcpx_status end;

	if (back)
		local_bell_missed(chan);
	if (back || ++chan->tx.full_count % PEER_CHECK_EVERY == 0)
		local_peer_check(chan);
	end = tx_status(chan);
	return end ? end : TCPX_IN_PROGRESS;
}

/* Copies as many of n bytes as fit into the ring. Publishes tx.head after each LOCAL_PIECE bytes
 * and sets *published to the value published last. Returns the number of bytes copied. Sets
 * tx.put_failed if src can no longer be read. */
static size_t ring_put_bytes(struct local_chan *chan, const uint8_t *src, size_t n,
			     uint64_t *published)
{
	size_t left = n, went;

	while (left) {
		uint64_t room = chan->ring_bytes - (chan->tx.head - chan->tx.tail_seen);
		size_t take =
			smaller_size(left, LOCAL_PIECE - (size_t)(chan->tx.head - *published));

		if (!room)
			room = local_room(chan);
		if (!room)
			break;
		take = smaller_size(take, room);
		went = ring_put(chan, src, take);
		src += went;
		left -= went;
		chan->tx.put_failed = went < take;
		if (chan->tx.put_failed)
			break;
		if (chan->tx.head - *published == LOCAL_PIECE) {
			publish_head(chan);
			*published = chan->tx.head;
		}
	}
	chan->tx.put += n - left;
	return n - left;
}

/* Copies as much of iov as fits into the ring. If `lend` is 1, lends large pieces instead of
 * copying them, where that is possible. `skip` is the number of bytes at the beginning of iov that
 * earlier calls have already copied or lent. */
static void put_pieces(struct local_chan *chan, const struct iovec *iov, int niov, uint64_t skip,
		       int lend)
{
	uint64_t published = chan->tx.head, loans = chan->tx.loan_head;

	for (int i = 0; i < niov; i++) {
		size_t gone = smaller_size(skip, iov[i].iov_len), left = iov[i].iov_len - gone;
		const uint8_t *src = (const uint8_t *)iov[i].iov_base + gone;

		skip -= gone;
		if (lend && left >= LOCAL_LEND_MIN && local_loan_may(chan)) {
			if (local_loan_make(chan, src, left))
				continue;
			/* nothing was lent now: stop if earlier loans have not ended, else copy */
			if (local_lent_count(chan))
				break;
		}
		if (left && ring_put_bytes(chan, src, left, &published) < left)
			break;
	}
	if (chan->tx.head != published)
		publish_head(chan);
	if (chan->tx.loan_head != loans &&
	    atomic_load_explicit(&chan->out->tail_wait, memory_order_seq_cst))
		local_bell_ring(chan, &chan->out->tail_wait);
}

/* Sends iov. If `lend` is 1, lends its large pieces. *out_bytes becomes the number of bytes whose
 * memory the peer no longer reads; some may have been taken by earlier calls. The caller must offer
 * all other bytes again. */
static tcpx_status send_or_lend(struct local_chan *chan, const struct iovec *iov, int niov,
				int lend, size_t *out_bytes)
{
	int back = local_bell_back(chan, LOCAL_TX);
	tcpx_status end = tx_status(chan);
	uint64_t home;
	size_t offered = 0;

	if (end)
		return end;
	if (local_loan_settle(chan)) {
		errno = EFAULT;
		return TCPX_ERR_INVALID;
	}
	chan->tx.put_failed = 0;
	put_pieces(chan, iov, niov, chan->tx.put - chan->tx.counted, lend);
	home = local_lent_count(chan) ? chan->tx.lent[chan->tx.loan_first % LOCAL_LOANS].begin
				      : chan->tx.put;
	home -= chan->tx.counted;
	for (int i = 0; i < niov && offered < home; i++)
		offered += iov[i].iov_len;
	if ((!home || !offered) && chan->tx.put_failed) {
		errno = EFAULT;
		return TCPX_ERR_INVALID;
	}
	if (!home || !offered)
		return tx_blocked(chan, back);
	chan->tx.full_count = 0;
	*out_bytes = smaller_size(home, offered);
	chan->tx.counted += *out_bytes;
	return TCPX_OK;
}

tcpx_status local_send(struct net_chan *base, const struct iovec *iov, int niov, size_t *out_bytes)
{
	law_free("local_send");
	return send_or_lend((struct local_chan *)base, iov, niov, 0, out_bytes);
}

int local_lends(const struct net_chan *base)
{
	const struct local_chan *chan = (const struct local_chan *)base;

	return chan->lend_to && atomic_load_explicit(chan->lend_ok, memory_order_acquire) != 0;
}

tcpx_status local_lend(struct net_chan *base, const struct iovec *iov, int niov, size_t *out_bytes)
{
	law_free("local_lend");
	return send_or_lend((struct local_chan *)base, iov, niov, local_lends(base), out_bytes);
}

/* Returns the number of readable bytes in the ring before the position of the next loan. */
static uint64_t rx_avail(struct local_chan *chan)
{
	uint64_t there = chan->rx.head_seen - chan->rx.tail;

	if (!there)
		there = local_readable(chan);
	/* The bytes are counted before the loan is looked up. The producer publishes a loan before
	 * any byte that follows it, so a loan in front of these bytes is always found. */
	if (chan->rx.borrow && local_loan_next(chan) && chan->rx.loan.at - chan->rx.tail < there)
		there = chan->rx.loan.at - chan->rx.tail;
	return there;
}

/* Whether the next bytes of the stream are those of the loan in rx.loan. */
static int loan_at_cursor(const struct local_chan *chan)
{
	return chan->rx.loan.known && chan->rx.loan.at == chan->rx.tail;
}

/* Returns IN_PROGRESS, or the status with which the channel ended. Returns OK if the peer has
 * closed the channel but bytes or a loan of the peer can still be received. Called when neither
 * bytes nor a loan was found. `back` is the result of local_bell_back. */
static tcpx_status rx_empty(struct local_chan *chan, int back)
{
	int gone, end;

	if (back)
		local_bell_missed(chan);
	if (atomic_load_explicit(&chan->in->head_closed, memory_order_acquire))
		local_peer_closed(chan);
	else if (back || ++chan->rx.empty_count % PEER_CHECK_EVERY == 0)
		local_peer_check(chan);
	/* The peer publishes its last bytes before it closes the channel, so the ring is checked
	 * once more after the close was seen. */
	gone = atomic_load_explicit(&chan->gone, memory_order_acquire);
	if (gone && (rx_avail(chan) || loan_at_cursor(chan)))
		return TCPX_OK;
	end = atomic_load_explicit(&chan->end, memory_order_acquire);
	if (!end)
		end = gone;
	return end ? (tcpx_status)end : TCPX_IN_PROGRESS;
}

/* See net_ops.recv. Copies the bytes of the ring up to the next loan, and publishes rx.tail after
 * each LOCAL_PIECE bytes, so that the producer can continue. Reads a loan only in a call that
 * begins at the loan, so that torn bytes are never returned together with others. */
tcpx_status local_recv(struct net_chan *base, const struct iovec *iov, int niov, size_t *out_bytes)
{
	struct local_chan *chan = (struct local_chan *)base;
	int back = local_bell_back(chan, LOCAL_RX);
	int end = atomic_load_explicit(&chan->end, memory_order_acquire);
	uint64_t avail, begin = chan->rx.tail, published = begin;

	law_free("local_recv");
	if (end)
		return (tcpx_status)end;
	if (chan->rx.probe_due)
		local_share_probe(chan);
	avail = rx_avail(chan);
	if (!avail && !loan_at_cursor(chan)) {
		tcpx_status status = rx_empty(chan, back);

		if (status)
			return status;
		avail = rx_avail(chan);
	}
	if (!avail) {
		chan->rx.empty_count = 0;
		return local_loan_recv(chan, iov, niov, out_bytes);
	}
	chan->rx.empty_count = 0;
	for (int i = 0; i < niov; i++) {
		uint8_t *dst = iov[i].iov_base;
		size_t left = iov[i].iov_len;

		while (left) {
			size_t n = smaller_size(left,
						LOCAL_PIECE - (size_t)(chan->rx.tail - published));
			size_t got;

			if (!avail)
				avail = rx_avail(chan);
			if (!avail)
				goto out;
			n = smaller_size(n, avail);
			got = ring_get(chan, dst, n);
			dst += got;
			left -= got;
			avail -= got;
			if (got < n)
				goto out; /* the buffer can no longer be written */
			if (chan->rx.tail - published == LOCAL_PIECE) {
				publish_tail(chan);
				published = chan->rx.tail;
			}
		}
	}
out:
	if (chan->rx.tail != published)
		publish_tail(chan);
	if (chan->rx.tail == begin) {
		errno = EFAULT;
		return TCPX_ERR_INVALID;
	}
	*out_bytes = (size_t)(chan->rx.tail - begin);
	return TCPX_OK;
}
