/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loans: pieces of the producer's memory that the consumer reads directly. A loan ends, and the
 * producer may change the memory again, in four cases: the consumer has read it, the consumer could
 * not read it, the producer took it back while the consumer was not reading, or the consumer's
 * process has ended.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/error.h"
#include "net/local/local_priv.h"
#include "sys/user.h"

#define READ_PIECES 512 /* maximum number of buffers that one process_vm_readv fills */

/* Functions of the producer. */

/* Whether a loan in this state has ended, so that the consumer no longer reads its memory. */
static int is_returned(uint32_t state)
{
	return state == LOAN_BACK || state == LOAN_FAILED || state == LOAN_OVER;
}

static struct local_loan *lent_loan(const struct local_chan *chan, uint64_t index)
{
	return &chan->lend_to->loan[index % LOCAL_LOANS];
}

int local_loan_make(struct local_chan *chan, const void *addr, size_t bytes)
{
	struct local_loan *loan = lent_loan(chan, chan->tx.loan_head);
	uint32_t state = atomic_load_explicit(&loan->state, memory_order_acquire);

	if (local_lent_count(chan) == LOCAL_LOANS || (state != LOAN_NONE && state != LOAN_OVER))
		return 0;
	atomic_store_explicit(&loan->addr, (uintptr_t)addr, memory_order_relaxed);
	atomic_store_explicit(&loan->bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&loan->at, chan->tx.head, memory_order_relaxed);
	atomic_store_explicit(&loan->error, 0, memory_order_relaxed);
	atomic_store_explicit(&loan->state, LOAN_OUT, memory_order_release);
	chan->tx.lent[chan->tx.loan_head % LOCAL_LOANS] =
		(struct local_lent){.begin = chan->tx.put};
	chan->tx.put += bytes;
	/* Publishes the loan before any byte that follows it, and before this side reads the
	 * consumer's wait word. */
	atomic_store_explicit(&chan->lend_to->head, ++chan->tx.loan_head, memory_order_seq_cst);
	return 1;
}

/* Records whether the loan has ended, and if so, whether it failed. */
static void loan_check_home(struct local_chan *chan, uint64_t index)
{
	struct local_lent *lent = &chan->tx.lent[index % LOCAL_LOANS];
	struct local_loan *loan = lent_loan(chan, index);

	if (lent->home || !is_returned(atomic_load_explicit(&loan->state, memory_order_acquire)))
		return;
	lent->home = 1;
	if (atomic_load_explicit(&loan->error, memory_order_relaxed))
		chan->tx.lent_failed = 1;
}

/* Moves loan_first past the loans that have ended. */
static void loan_advance_first(struct local_chan *chan)
{
	while (local_lent_count(chan) && chan->tx.lent[chan->tx.loan_first % LOCAL_LOANS].home)
		chan->tx.loan_first++;
}

int local_loan_settle(struct local_chan *chan)
{
	int failed;

	for (uint64_t i = chan->tx.loan_first; i != chan->tx.loan_head; i++)
		loan_check_home(chan, i);
	loan_advance_first(chan);
	failed = chan->tx.lent_failed;
	chan->tx.lent_failed = 0;
	return failed;
}

int local_loan_ended(struct local_chan *chan)
{
	return is_returned(atomic_load(&lent_loan(chan, chan->tx.loan_first)->state));
}

/* Takes a loan back unless it has ended or the consumer is reading it. Returns 1 if this call took
 * it back; the consumer then receives the rest of the loan as torn bytes (net_loan_ops.torn). */
static int loan_take_back(struct local_chan *chan, uint64_t index)
{
	struct local_lent *lent = &chan->tx.lent[index % LOCAL_LOANS];
	uint32_t out = LOAN_OUT;

	loan_check_home(chan, index);
	if (lent->home)
		return 0;
	lent->home =
		atomic_compare_exchange_strong(&lent_loan(chan, index)->state, &out, LOAN_BACK);
	return lent->home;
}

void local_lent(struct net_chan *base, int back, struct net_lent *out_lent)
{
	struct local_chan *chan = (struct local_chan *)base;

	*out_lent = (struct net_lent){.ahead = chan->tx.put - chan->tx.counted};
	for (uint64_t i = chan->tx.loan_first; i != chan->tx.loan_head; i++) {
		if (back)
			out_lent->torn += (unsigned)loan_take_back(chan, i);
		else
			loan_check_home(chan, i);
		out_lent->pieces += !chan->tx.lent[i % LOCAL_LOANS].home;
	}
	if (out_lent->pieces && atomic_load(&chan->end) && local_share_peer_gone(chan)) {
		for (uint64_t i = chan->tx.loan_first; i != chan->tx.loan_head; i++)
			chan->tx.lent[i % LOCAL_LOANS].home = 1;
		out_lent->pieces = 0;
	}
	loan_advance_first(chan);
}

/* Functions of the consumer. */

static struct local_loan *borrowed_loan(const struct local_chan *chan)
{
	return &chan->rx.borrow->loan[chan->rx.loan_tail % LOCAL_LOANS];
}

int local_loan_next(struct local_chan *chan)
{
	struct local_borrowed *now = &chan->rx.loan;
	struct local_loan *loan;
	uint64_t head;

	if (now->known)
		return 1;
	head = atomic_load_explicit(&chan->rx.borrow->head, memory_order_seq_cst);
	if (head == chan->rx.loan_tail)
		return 0;
	loan = borrowed_loan(chan);
	*now = (struct local_borrowed){
		.addr = atomic_load_explicit(&loan->addr, memory_order_relaxed),
		.left = atomic_load_explicit(&loan->bytes, memory_order_relaxed),
		.at = atomic_load_explicit(&loan->at, memory_order_relaxed),
	};
	/* The fields are untrusted if they are in memory shared with another process, so each is
	 * read once and then checked. A false length below LOCAL_LEND_MAX does no harm, because a
	 * recv reads no more of a loan than its buffers have room for. */
	if (head - chan->rx.loan_tail > LOCAL_LOANS || !now->left || now->left > LOCAL_LEND_MAX ||
	    now->at - chan->rx.tail > chan->ring_bytes) {
		local_die(chan, TCPX_ERR_PROTOCOL);
		return 0;
	}
	now->known = 1;
	return 1;
}

/* Returns the total size of the buffers in iov, but at most `max`. */
static size_t iov_room(const struct iovec *iov, int niov, uint64_t max)
{
	uint64_t bytes = 0;

	for (int i = 0; i < niov && bytes < max; i++)
		bytes += iov[i].iov_len;
	return (size_t)(bytes < max ? bytes : max);
}

/* Reads n bytes of the loan by memcpy. Returns the number of bytes read, which is less than n if a
 * buffer in iov can no longer be written (see net_chan.rx_vanishing). */
static size_t read_direct(struct local_chan *chan, const struct iovec *iov, size_t n)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): set by the other end, in this process */
	const uint8_t *src = (const uint8_t *)(uintptr_t)chan->rx.loan.addr;
	size_t done = 0;

	for (; done < n; iov++) {
		size_t take = iov->iov_len < n - done ? iov->iov_len : n - done, got = take;

		if (chan->base.rx_vanishing)
			got = sys_user_write(iov->iov_base, src + done, take);
		else
			local_copy_out(&chan->rx.heat, iov->iov_base, src + done, take);
		done += got;
		if (got < take)
			break;
	}
	return done;
}

/* Whether the next `bytes` bytes of the loan can be read from the peer's memory. Called after
 * EFAULT or a short read; neither says which is not mapped: the peer's memory or a buffer of this
 * side. */
static int peer_readable(const struct local_chan *chan, size_t bytes)
{
	uint8_t scratch[4096];

	for (size_t at = 0; at < bytes; at += sizeof(scratch)) {
		size_t n = bytes - at < sizeof(scratch) ? bytes - at : sizeof(scratch);
		struct iovec here = {scratch, n};
		struct iovec there = {(void *)(uintptr_t)(chan->rx.loan.addr + at), n};

		if (process_vm_readv(chan->pid, &here, 1, &there, 1, 0) != (ssize_t)n)
			return 0;
	}
	return 1;
}

/* Reads at most *inout_bytes bytes of the loan by process_vm_readv. On success returns 0 and
 * sets *inout_bytes to the number of bytes read. If a buffer in iov can no longer be written,
 * returns 0 and sets *inout_bytes to 0. Otherwise returns an errno. EFAULT means that the loan's
 * memory is not mapped in the peer's process; the caller skips the loan. Any other errno means that
 * the peer's process cannot be read any more, or (ESRCH) that the process with this pid is not the
 * peer; the caller ends the channel. */
static int read_peer(struct local_chan *chan, const struct iovec *iov, size_t *inout_bytes)
{
	uint8_t secret[LOCAL_SECRET_BYTES] = {0};
	struct iovec here[READ_PIECES + 1], there[2];
	size_t bytes = 0;
	unsigned n = 0;
	ssize_t got;

	for (; n < READ_PIECES && bytes < *inout_bytes; n++) {
		here[n] = iov[n];
		if (here[n].iov_len > *inout_bytes - bytes)
			here[n].iov_len = *inout_bytes - bytes;
		bytes += here[n].iov_len;
	}
	*inout_bytes = bytes;
	here[n++] = (struct iovec){secret, sizeof(secret)};
	there[0] = (struct iovec){(void *)(uintptr_t)chan->rx.loan.addr, bytes};
	/* The same call reads the peer's secret. The secret proves that the bytes are from the
	 * peer, not from another process with the same pid, and not from a program that the peer's
	 * process has executed since (execve). */
	there[1] = (struct iovec){(void *)(uintptr_t)chan->rx.peer_addr, sizeof(secret)};
	got = process_vm_readv(chan->pid, here, n, there, 2, 0);
	if (got < 0 && errno != EFAULT)
		return errno;
	if ((size_t)got != bytes + sizeof(secret)) {
		*inout_bytes = 0;
		if (!peer_readable(chan, bytes))
			return EFAULT;
		/* the secret may be what cannot be read */
		here[0] = here[n - 1];
		if (process_vm_readv(chan->pid, here, 1, there + 1, 1, 0) != sizeof(secret))
			return ESRCH;
		return memcmp(secret, chan->rx.peer_secret, sizeof(secret)) ? ESRCH : 0;
	}
	return memcmp(secret, chan->rx.peer_secret, sizeof(secret)) ? ESRCH : 0;
}

/* Sets the loan's state, and wakes the producer if it waits for the end of a loan. LOAN_OVER means
 * that all bytes were received or skipped; the consumer goes on to the next entry. LOAN_FAILED
 * means that the consumer no longer reads the memory; loan_skip() counts the remaining bytes and
 * then sets LOAN_OVER. */
static void loan_end(struct local_chan *chan, struct local_loan *loan, uint32_t state)
{
	atomic_store_explicit(&loan->state, state, memory_order_seq_cst);
	if (state != LOAN_FAILED) {
		chan->rx.loan.known = 0;
		chan->rx.loan_tail++;
	}
	if (atomic_load_explicit(&chan->in->head_wait, memory_order_seq_cst) == LOCAL_WAIT_LOAN)
		local_bell_ring(chan, &chan->in->head_wait);
}

/* Ends the channel, so that it is dialled again. Called when the peer's memory can no longer be
 * read; `err` is the errno. */
static tcpx_status loan_unreadable(struct local_chan *chan, int err)
{
	static struct log_limit limit;

	if (err != ESRCH && log_allow(&limit, 1))
		LOG_WARN("local: memory of process %d cannot be read any more (errno %d); "
			 "reconnecting the channel",
			 chan->pid, err);
	local_die(chan, TCPX_ERR_PEER_RESET);
	errno = err;
	return TCPX_ERR_PEER_RESET;
}

/* Counts n bytes of a torn loan as received without reading them. */
static tcpx_status loan_skip(struct local_chan *chan, struct local_loan *loan, size_t n,
			     size_t *out_bytes)
{
	chan->rx.loan.torn = 1;
	chan->rx.torn = 1;
	chan->rx.loan.left -= n;
	*out_bytes = n;
	if (!chan->rx.loan.left)
		loan_end(chan, loan, LOAN_OVER);
	return TCPX_OK;
}

/* Receives bytes of the loan, as many as iov has room for. During the read the loan is READING, so
 * that the producer cannot take it back. After that the loan is OUT again, or OVER after its last
 * byte. A loan that the producer took back or whose memory is not mapped is skipped: its remaining
 * bytes are torn. */
tcpx_status local_loan_recv(struct local_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes)
{
	struct local_loan *loan = borrowed_loan(chan);
	size_t n = iov_room(iov, niov, chan->rx.loan.left), asked;
	uint32_t state = LOAN_OUT;
	int err = 0;

	if (!n)
		return TCPX_IN_PROGRESS;
	if (chan->rx.loan.torn)
		return loan_skip(chan, loan, n, out_bytes);
	if (!atomic_compare_exchange_strong(&loan->state, &state, LOAN_READING)) {
		if (state == LOAN_BACK)
			return loan_skip(chan, loan, n, out_bytes);
		local_die(chan, TCPX_ERR_PROTOCOL);
		return TCPX_ERR_PROTOCOL;
	}
	asked = n;
	if (chan->copy == COPY_DIRECT)
		n = read_direct(chan, iov, n);
	else
		err = read_peer(chan, iov, &n);
	if (err == EFAULT) {
		n = asked;
		atomic_store_explicit(&loan->error, EFAULT, memory_order_relaxed);
		loan_end(chan, loan, LOAN_FAILED);
		return loan_skip(chan, loan, n, out_bytes);
	}
	if (err) {
		atomic_store(&loan->state, LOAN_OUT); /* nothing was read; the channel ends */
		return loan_unreadable(chan, err);
	}
	chan->rx.loan.addr += n;
	chan->rx.loan.left -= n;
	if (chan->rx.loan.left) /* the caller's next recv reads the rest */
		atomic_store(&loan->state, LOAN_OUT);
	else
		loan_end(chan, loan, LOAN_OVER);
	if (!n) {
		errno = EFAULT;
		return TCPX_ERR_INVALID; /* a buffer in iov can no longer be written */
	}
	*out_bytes = n;
	return TCPX_OK;
}

int local_torn(struct net_chan *base)
{
	struct local_chan *chan = (struct local_chan *)base;
	int torn = chan->rx.torn;

	chan->rx.torn = 0;
	return torn;
}
