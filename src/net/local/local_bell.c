/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping and waking. A side that is going to sleep sets a wait word in the shared header and
 * then checks for work once more; the other side, after moving its cursor, reads the word, resets
 * it and sends one byte over the socket: the bell. A bell does not say which role (receiving or
 * sending) it is for, and both roles may sleep on the descriptor in two threads. So a bell may be
 * read from the socket only if no other thread still has to be woken by it. docs/design/local.md
 * has the argument.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "net/local/local_priv.h"

/* Returns the wait word of this side for a role; the peer resets it to 0 when it rings. */
static _Atomic uint32_t *wait_word(struct local_chan *chan, int role)
{
	return role == LOCAL_RX ? &chan->in->tail_wait : &chan->out->head_wait;
}

void local_bell_ring(struct local_chan *chan, _Atomic uint32_t *wait)
{
	if (!atomic_exchange(wait, 0))
		return;
	/* A full socket has bells that the peer has not read yet, so the peer is awake already. */
	if (send(chan->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno == EAGAIN)
		return;
	local_peer_check(chan);
	if (!atomic_load(&chan->gone))
		local_die(chan, TCPX_ERR_PEER_RESET); /* the peer sleeps and cannot be woken */
}

/* Called when the thread that owns role is awake again. Clears the role's wait word, so that the
 * peer does not ring for it. */
static void disarm_role(struct local_chan *chan, int role)
{
	atomic_store(&chan->bell.armed[role], 0);
	/* If the word is 0, the peer has reset it: its bell is in the socket, or soon will be. */
	if (!atomic_exchange(wait_word(chan, role), 0))
		atomic_store(&chan->bell.owed, 1);
}

int local_bell_back(struct local_chan *chan, enum local_role role)
{
	if (!atomic_load_explicit(&chan->bell.armed[role], memory_order_relaxed))
		return 0;
	disarm_role(chan, role);
	return 1;
}

void local_bell_missed(struct local_chan *chan)
{
	atomic_store(&chan->bell.owed, 1);
}

void local_peer_closed(struct local_chan *chan)
{
	int none = 0;

	atomic_compare_exchange_strong(&chan->gone, &none, TCPX_ERR_PEER_CLOSED);
}

void local_peer_check(struct local_chan *chan)
{
	struct pollfd poller = {.fd = chan->fd, .events = POLLRDHUP};
	int none = 0;

	if (poll(&poller, 1, 0) <= 0)
		return;
	if (atomic_load_explicit(&chan->in->head_closed, memory_order_acquire))
		local_peer_closed(chan);
	else
		atomic_compare_exchange_strong(&chan->gone, &none, TCPX_ERR_PEER_RESET);
}

void local_die(struct local_chan *chan, tcpx_status status)
{
	int none = 0;

	if (!atomic_compare_exchange_strong(&chan->end, &none, status))
		return;
	if (status == TCPX_ERR_DISCONNECTED) {
		atomic_store(&chan->out->head_closed, 1);
		atomic_store(&chan->in->tail_closed, 1);
	}
	shutdown(chan->fd, SHUT_RDWR); /* wakes sleepers at both ends */
}

/* Whether a bell in the socket is for the thread that owns role: that thread may be asleep
 * (armed), and the peer has reset the role's wait word, so the peer has sent a bell or is about
 * to. */
static int bell_pending(struct local_chan *chan, int role)
{
	return atomic_load(&chan->bell.armed[role]) && !atomic_load(wait_word(chan, role));
}

/*
 * Reads the bells from the socket. The caller owns each role whose want is not 0. Returns 1 if the
 * caller may sleep; 0 if not: the peer is gone, a bell is for the owner of the other role, or that
 * thread is reading bells. The number of bells is read before the state of the other role, so a
 * bell that is sent for a later sleep of its owner is not among those read.
 */
static int drain_bells(struct local_chan *chan, int want_recv, int want_send)
{
	char bells[64];
	int may_sleep = 0;

	if (!atomic_exchange(&chan->bell.owed, 0))
		return 1;
	if (atomic_flag_test_and_set(&chan->bell.draining)) {
		atomic_store(&chan->bell.owed, 1);
		return 0;
	}
	for (int round = 0; round < 8; round++) {
		ssize_t n = recv(chan->fd, bells, sizeof(bells), MSG_PEEK | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN) {
			may_sleep = 1;
			break;
		}
		if (n <= 0) {
			local_peer_check(chan);
			break;
		}
		if ((!want_recv && bell_pending(chan, LOCAL_RX)) ||
		    (!want_send && bell_pending(chan, LOCAL_TX)))
			break;
		(void)!recv(chan->fd, bells, (size_t)n, MSG_DONTWAIT);
		if ((size_t)n < sizeof(bells)) {
			may_sleep = 1; /* bells that come later keep the socket readable */
			break;
		}
	}
	atomic_flag_clear(&chan->bell.draining);
	if (!may_sleep)
		atomic_store(&chan->bell.owed, 1);
	return may_sleep;
}

/* Whether the caller should call recv: the peer has published as many bytes as rx.mark, a further
 * loan, or the end of the stream. This is a hint from the cursors alone: the recv that follows
 * detects an invalid one. */
static int rx_ready(struct local_chan *chan)
{
	uint64_t there = atomic_load(&chan->in->head) - atomic_load(&chan->in->tail);

	if (chan->rx.borrow && atomic_load(&chan->rx.borrow->head) != chan->rx.loan_tail)
		return 1;
	return there >= atomic_load_explicit(&chan->rx.mark, memory_order_relaxed) ||
	       atomic_load(&chan->in->head_closed);
}

/* Whether send has something to do: enough room in the ring, an ended loan, an invalid cursor, or
 * a closed ring. */
static int tx_ready(struct local_chan *chan)
{
	uint64_t used = atomic_load(&chan->out->head) - atomic_load(&chan->out->tail);

	/* A producer with loans out waits for the end of its first loan, not for room in the
	 * ring. */
	if (local_lent_count(chan))
		return local_loan_ended(chan) || atomic_load(&chan->out->tail_closed);
	return used <= chan->ring_bytes - local_room_mark(chan) || used > chan->ring_bytes ||
	       atomic_load(&chan->out->tail_closed);
}

/* See net_ops.arm. For each role that will sleep: sets armed, then the wait word, and then checks
 * once more for something to do, since the peer moves its cursor before it reads the word. */
int local_arm(struct net_chan *base, int want_recv, int want_send, uint32_t *out_events)
{
	struct local_chan *chan = (struct local_chan *)base;
	int ready = 0;

	*out_events = want_recv > 0 || want_send > 0 ? EPOLLIN : 0u;
	if (want_recv && atomic_load(&chan->bell.armed[LOCAL_RX]))
		disarm_role(chan, LOCAL_RX);
	if (want_send && atomic_load(&chan->bell.armed[LOCAL_TX]))
		disarm_role(chan, LOCAL_TX);
	if (!*out_events)
		return 0;
	if (atomic_load(&chan->end) || atomic_load(&chan->gone))
		return 1;
	if (!drain_bells(chan, want_recv, want_send))
		return 1;
	if (want_recv > 0) {
		atomic_store(&chan->bell.armed[LOCAL_RX], 1);
		atomic_store(wait_word(chan, LOCAL_RX), (uint32_t)atomic_load(&chan->rx.mark));
		ready |= rx_ready(chan);
	}
	if (want_send > 0) {
		atomic_store(&chan->bell.armed[LOCAL_TX], 1);
		atomic_store(wait_word(chan, LOCAL_TX),
			     local_lent_count(chan) ? LOCAL_WAIT_LOAN : LOCAL_WAIT_ROOM);
		ready |= tx_ready(chan);
	}
	if (!ready && !atomic_load(&chan->end) && !atomic_load(&chan->gone))
		return 0;
	if (want_recv > 0)
		disarm_role(chan, LOCAL_RX);
	if (want_send > 0)
		disarm_role(chan, LOCAL_TX);
	return 1;
}
