/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping and waking. A side that is about to sleep sets a wait word in the shared header and
 * checks once more for work. The other side moves its cursor and then reads the wait word. If the
 * word is set and the sleeper now has enough work (rx.mark, local_room_mark), the other side resets
 * the word and sends one byte over the socket: a bell. A bell does not say whether it is for the
 * thread that receives or for the thread that sends, and both may sleep on the one descriptor. A
 * thread must therefore leave a bell in the socket while the other thread still needs it to wake
 * up. See "Sleeping without a lost wake-up" in docs/design/local.md.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "net/local/local_priv.h"

/* Returns this side's wait word for `role`; the peer resets the word to 0 before it sends a
 * bell. */
static _Atomic uint32_t *wait_word(struct local_chan *chan, int role)
{
	return role == LOCAL_RX ? &chan->in->tail_wait : &chan->out->head_wait;
}

void local_bell_ring(struct local_chan *chan, _Atomic uint32_t *wait)
{
	if (!atomic_exchange(wait, 0))
		return;
	/* EAGAIN: the socket is full of bells that the peer has not read. They wake the peer. */
	if (send(chan->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno == EAGAIN)
		return;
	local_peer_check(chan);
	if (!atomic_load(&chan->gone))
		local_die(chan, TCPX_ERR_PEER_RESET); /* no bell was sent; this wakes the peer */
}

/* Clears the role's wait word, so that the peer sends no bell for it. Called when the thread that
 * owns `role` does not sleep. */
static void disarm_role(struct local_chan *chan, int role)
{
	atomic_store(&chan->bell.armed[role], 0);
	/* If the word was 0 already, the peer has reset it and has sent a bell, or is about to send
	 * one. */
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

/* Whether the thread that owns `role` still needs a bell: the thread may be asleep (`armed`), and
 * its wait word is 0, so the peer has sent a bell or is about to. */
static int bell_pending(struct local_chan *chan, int role)
{
	return atomic_load(&chan->bell.armed[role]) && !atomic_load(wait_word(chan, role));
}

/*
 * Reads the bells from the socket, if there may be unread ones (bell.owed). The caller owns each
 * direction whose want is not 0 (see net_ops.arm). Returns 1 if the caller may sleep. Returns 0 if
 * the peer has closed the socket, the owner of a direction whose want is 0 may need a bell, another
 * thread is reading bells, or bells are left after eight reads. Each round counts the bells in the
 * socket, then checks the direction that the caller does not own, and then reads only the counted
 * bells. A bell for a later sleep of that direction's owner therefore stays in the socket.
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

/* Whether the caller should call recv: there are at least rx.mark bytes or a loan that were not
 * received, or the peer has published the end of the stream. The cursors are not validated here;
 * recv validates them. */
static int rx_ready(struct local_chan *chan)
{
	uint64_t there = atomic_load(&chan->in->head) - atomic_load(&chan->in->tail);

	if (chan->rx.borrow && atomic_load(&chan->rx.borrow->head) != chan->rx.loan_tail)
		return 1;
	return there >= atomic_load_explicit(&chan->rx.mark, memory_order_relaxed) ||
	       atomic_load(&chan->in->head_closed);
}

/* Whether the caller should call send. If the peer has closed the ring: yes. Else, while something
 * is lent: if the oldest loan has ended; while nothing is lent: if the ring has enough room or the
 * peer's cursor is invalid. */
static int tx_ready(struct local_chan *chan)
{
	uint64_t used = atomic_load(&chan->out->head) - atomic_load(&chan->out->tail);

	if (local_lent_count(chan))
		return local_loan_ended(chan) || atomic_load(&chan->out->tail_closed);
	return used <= chan->ring_bytes - local_room_mark(chan) || used > chan->ring_bytes ||
	       atomic_load(&chan->out->tail_closed);
}

/* See net_ops.arm. For each direction that is about to sleep: sets `armed`, sets the wait word, and
 * checks once more for work. The peer moves its cursor before it reads the wait word, so no wake-up
 * is lost. */
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
