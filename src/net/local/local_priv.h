/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the files of the same-host transport share. */
#ifndef NET_LOCAL_LOCAL_PRIV_H
#define NET_LOCAL_LOCAL_PRIV_H

#include "net/local/local_chan.h"

extern const struct net_ops local_ops;

/* Defined in local_ring.c. */
tcpx_status local_send(struct net_chan *chan, const struct iovec *iov, int niov, size_t *out_bytes);
tcpx_status local_recv(struct net_chan *chan, const struct iovec *iov, int niov, size_t *out_bytes);
/* Bytes that can be read or written now; 0 with chan->end set if the peer's cursor is not valid. */
uint64_t local_readable(struct local_chan *chan); /* rx owner */
uint64_t local_room(struct local_chan *chan);	  /* tx owner */

/* Defined in local_loan.c, except local_lend, which is in local_ring.c. */
tcpx_status local_lend(struct net_chan *chan, const struct iovec *iov, int niov, size_t *out_bytes);
void local_lent(struct net_chan *chan, int take_back, struct net_lent *out_lent);
int local_torn(struct net_chan *chan);
/* Lends a piece whose place in the stream is tx.head. Returns 0 if it cannot: all entries are
 * lent, or the consumer is not done with the entry that comes next. tx owner. */
int local_loan_make(struct local_chan *chan, const void *addr, size_t bytes);
/* Whether the memory that is being sent is of a kind that may be lent: within one process a loan
 * is read by memcpy, which must not be used for memory that may vanish. Does not check whether
 * the peer reads loans (lend_ok), nor whether an entry is free. */
static inline int local_loan_may(const struct local_chan *chan)
{
	return chan->copy != COPY_DIRECT || !chan->base.tx_vanishing;
}
/* Finds the loans that ended. Returns 1 if one of them failed, which is reported once. tx owner. */
int local_loan_settle(struct local_chan *chan);
/* Returns the number of loans from loan_first on; some of them may have ended. */
static inline uint64_t local_lent_count(const struct local_chan *chan)
{
	return chan->tx.loan_head - chan->tx.loan_first;
}
/* Whether the first loan has ended. Called before the producer sleeps. tx owner. */
int local_loan_ended(struct local_chan *chan);
/* Reads the next loan into chan->rx.loan, unless it is there; returns 0 if there is none, or if it
 * is not valid, which ends the channel. rx owner. */
int local_loan_look(struct local_chan *chan);
/* Reads bytes of the loan in chan->rx.loan, which is at the cursor. TCPX_OK: *out_bytes were read
 * or, if the loan is torn, counted. IN_PROGRESS: iov has no room. ERR_INVALID: the memory in iov
 * has vanished. Other errors: the channel has ended. rx owner. */
tcpx_status local_loan_recv(struct local_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);

/* Defined in local_share.c. */
struct local_hello;
/* Find out how the two ends read loans. Called by the dialler before it sends the hello, and by
 * the acceptor when the hello has arrived. */
void local_share_dial(struct local_chan *chan, int memfd, const struct local_hello *hello);
void local_share_accept(struct local_chan *chan, int memfd, const struct local_hello *hello);
void local_share_end(struct local_chan *chan); /* called when the channel closes */
/* while rx.probe_due: checks whether the peer's memory can be read; rx owner */
void local_share_probe(struct local_chan *chan);
int local_share_peer_gone(const struct local_chan *chan); /* 1: the peer's process has ended */
void local_reading_set(struct net_chan *chan, int on);
int local_reading_peer(struct net_chan *chan);
/* Returns how this side's bytes are copied to the peer: "ring", "memcpy" or "one-copy". */
const char *local_share_name(const struct local_chan *chan);

/* Defined in local_copy.c: from user memory into a ring, and out of a ring. */
void local_copy_in(uint8_t *ring, const uint8_t *user, size_t n);
void local_copy_out(struct local_heat *heat, uint8_t *user, const uint8_t *ring, size_t n);

/* Defined in local_bell.c. */
/* Values of a producer's wait word: what it sleeps for. */
#define LOCAL_WAIT_ROOM 1u /* free bytes in the ring */
#define LOCAL_WAIT_LOAN 2u /* the end of its first loan */
int local_arm(struct net_chan *chan, int want_recv, int want_send, uint32_t *out_events);
/* A sleeping producer is woken when this many bytes of its ring are free. This is less than half
 * of the ring: a consumer may sleep until half a ring has arrived (its mark), so a producer that
 * has half a ring free must not sleep at the same time. */
static inline uint64_t local_room_mark(const struct local_chan *chan)
{
	return chan->ring_bytes / 4;
}
/* Resets the wait word and wakes the sleeper at the other end, unless the word is 0. */
void local_bell_ring(struct local_chan *chan, _Atomic uint32_t *wait);
/* Called when the thread that owns role is awake again; returns 1 if it had been going to sleep. */
int local_bell_back(struct local_chan *chan, enum local_role role);
/* Called if local_bell_back returned 1 and that thread found nothing to do: the bell is old. */
void local_bell_missed(struct local_chan *chan);
void local_peer_closed(struct local_chan *chan); /* called when the peer has set its closed flag */
/* Asks the socket whether the peer still exists; if not, sets chan->gone. */
void local_peer_check(struct local_chan *chan);
/* ends both directions with this status and wakes all sleepers at both ends */
void local_die(struct local_chan *chan, tcpx_status status);

/* Defined in local_chan.c. */
/* Makes a memfd with a header and two rings and maps it. The caller closes *out_memfd. */
tcpx_status local_map_create(size_t ring_bytes, int *out_memfd, struct local_map **out_map);
/* Checks a memfd of the peer and maps it. The caller closes memfd. ERR_PROTOCOL: its size or seals
 * are wrong. */
tcpx_status local_map_import(int memfd, uint64_t ring_bytes, struct local_map **out_map);
void local_map_put(struct local_map *map);
/* Makes a channel of a connected socket and a map. On success the channel owns fd and one
 * reference to map. side 0: the dialler; 1: the acceptor. */
tcpx_status local_chan_create(int fd, struct local_map *map, size_t ring_bytes, int side,
			      struct net_chan **out_chan);
/* Whether a ring may have this size: a power of two within the limits. */
int local_ring_bytes_ok(uint64_t ring_bytes);

/* Defined in local_fetch.c. */
/* Sends n bytes with a descriptor, which the caller keeps, over a socket whose send buffer has
 * room for them. */
tcpx_status local_pass(int sock, const void *bytes, size_t n, int fd);
/* Like recv. If *inout_fd is -1, a received descriptor is stored there; all others are closed. */
ssize_t local_pass_recv(int sock, void *bytes, size_t n, int *inout_fd);

/* For local_dial.c and local_listen.c. */
#define LOCAL_MAGIC 0x3176676e69727874ull
#define LOCAL_VERSION 2

/* A flag of hellos: the dialler waits for one of the two answers, each a single byte. A listener
 * of another user answers REFUSED before it reads the hello. */
#define LOCAL_WANTS_ANSWER 1u
#define LOCAL_ANSWER_TAKEN 1
#define LOCAL_ANSWER_REFUSED 2

/* Magic of a hello that asks for a descriptor, whose number is in ring_bytes; such a hello comes
 * without a memfd. */
#define LOCAL_FETCH_MAGIC 0x3166676e69727874ull

/* The first message on the socket, sent with the memfd. It is in native byte order, because both
 * ends are on one host. */
struct local_hello {
	uint64_t magic;
	uint32_t version, epoch;
	uint64_t ring_bytes;
	uint16_t channel, flags, zero[2];
	uint8_t nonce[LOCAL_NONCE_BYTES];
};

static_assert(sizeof(struct local_hello) == 64, "hello without padding");

struct sockaddr_un;
/* Connects to the listener of that name and checks that the listener belongs to our user. */
tcpx_status local_dial_socket(const char *name, int *out_fd);
/* Whether the other end of a unix socket belongs to our user; *out_uid: its user. Both ends use
 * this check. Root is a user like any other: otherwise one end could allow a channel that the
 * other end refuses. */
bool local_same_user(int fd, unsigned *out_uid);
/* Builds the abstract unix address of a name; returns the length of the address. */
unsigned local_address(const char *name, struct sockaddr_un *out_addr);

#endif
