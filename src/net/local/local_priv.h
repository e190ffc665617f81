/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the files of the same-host transport share. */
#ifndef NET_LOCAL_LOCAL_PRIV_H
#define NET_LOCAL_LOCAL_PRIV_H

#include "net/local/local_chan.h"

extern const struct net_ops local_ops;

/* Defined in local_ring.c. */
tcpx_status local_send(struct net_chan *chan, const struct iovec *iov, int niov, size_t *out_bytes);
tcpx_status local_recv(struct net_chan *chan, const struct iovec *iov, int niov, size_t *out_bytes);
/* Return how many bytes can be read or written, or 0 if an invalid cursor ended the channel. */
uint64_t local_readable(struct local_chan *chan); /* called by the rx owner */
uint64_t local_room(struct local_chan *chan);	  /* called by the tx owner */

/* Defined in local_loan.c, except the first two, which are in local_ring.c. */
int local_lends(const struct net_chan *chan);
tcpx_status local_lend(struct net_chan *chan, const struct iovec *iov, int niov, size_t *out_bytes);
void local_lent(struct net_chan *chan, int take_back, struct net_lent *out_lent);
int local_torn(struct net_chan *chan);
/* Lends a piece, whose bytes come next in the stream. Returns 0 if all entries are lent or the
 * consumer still uses the next entry, else 1. Called by the tx owner. */
int local_loan_make(struct local_chan *chan, const void *addr, size_t bytes);
/* Whether the memory to be sent may be lent. Within one process a loan is read by memcpy, which
 * must not access memory that may vanish. Checks neither lend_ok nor whether an entry is free. */
static inline int local_loan_may(const struct local_chan *chan)
{
	return chan->copy != COPY_DIRECT || !chan->base.tx_vanishing;
}
/* Finds the loans that have ended. Returns 1 if one has failed since the last call. tx owner
 * only. */
int local_loan_settle(struct local_chan *chan);
/* Returns the number of loans from loan_first to the newest; some of them may have ended. */
static inline uint64_t local_lent_count(const struct local_chan *chan)
{
	return chan->tx.loan_head - chan->tx.loan_first;
}
/* Whether the oldest loan has ended. The tx owner calls this before it sleeps. */
int local_loan_ended(struct local_chan *chan);
/* Reads the next loan into chan->rx.loan if it is not there already. Returns 0 if there is none or
 * it is invalid; an invalid loan ends the channel. Called by the rx owner. */
int local_loan_next(struct local_chan *chan);
/* Receives bytes of chan->rx.loan, which must be next in the stream. Returns OK if *out_bytes were
 * read (or counted, if the loan is torn), IN_PROGRESS if iov has no room, ERR_INVALID if a buffer
 * in iov can no longer be written, else the error with which the channel ended. Called by the rx
 * owner. */
tcpx_status local_loan_recv(struct local_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);

/* Defined in local_share.c. */
struct local_hello;
/* Determine how the two ends read loans. Called by the dialler before it sends the hello, and by
 * the acceptor when the hello has arrived. */
void local_share_dial(struct local_chan *chan, int memfd, const struct local_hello *hello);
void local_share_accept(struct local_chan *chan, int memfd, const struct local_hello *hello);
void local_share_end(struct local_chan *chan); /* called when the channel closes */
/* If the peer has published its secret, checks whether the peer's memory can be read; if so, tells
 * the peer. Called while rx.probe_due is set, by local_share_accept and by the rx owner. */
void local_share_probe(struct local_chan *chan);
int local_share_peer_gone(const struct local_chan *chan); /* whether the peer's process has ended */
void local_reading_set(struct net_chan *chan, int on);
int local_reading_peer(struct net_chan *chan);
/* Returns how this side's bytes are copied to the peer: "ring", "memcpy" or "one-copy". */
const char *local_share_name(const struct local_chan *chan);

/* Defined in local_copy.c: copy from user memory into a ring, and from a ring to user memory. */
void local_copy_in(uint8_t *ring, const uint8_t *user, size_t n);
void local_copy_out(struct local_heat *heat, uint8_t *user, const uint8_t *ring, size_t n);

/* Defined in local_bell.c. */
/* What a sleeping producer waits for (values of its wait word). */
#define LOCAL_WAIT_ROOM 1u /* free bytes in the ring */
#define LOCAL_WAIT_LOAN 2u /* the end of its oldest loan */
int local_arm(struct net_chan *chan, int want_recv, int want_send, uint32_t *out_events);
/* Returns how many bytes of the ring must be free before a sleeping producer is woken. This is less
 * than half of the ring: a consumer may sleep until half a ring has arrived (rx.mark), so a
 * producer with half a ring free must not sleep at the same time. */
static inline uint64_t local_room_mark(const struct local_chan *chan)
{
	return chan->ring_bytes / 4;
}
/* Unless the wait word is 0, resets it and wakes the thread that sleeps at the other end. */
void local_bell_ring(struct local_chan *chan, _Atomic uint32_t *wait);
/* Called when the thread that owns `role` is awake: disarms its bell, returns 1 if it was armed. */
int local_bell_back(struct local_chan *chan, enum local_role role);
/* Records that a bell may be unread. Called if local_bell_back returned 1 but there was no work. */
void local_bell_missed(struct local_chan *chan);
void local_peer_closed(struct local_chan *chan); /* called when the peer has set its closed flag */
/* Polls the socket. If the peer has closed its end, sets chan->gone. */
void local_peer_check(struct local_chan *chan);
/* ends both directions with this status and wakes the sleeping threads of both ends */
void local_die(struct local_chan *chan, tcpx_status status);

/* Defined in local_chan.c. */
/* Makes a memfd with a header and two rings and maps it. The caller must close *out_memfd. */
tcpx_status local_map_create(size_t ring_bytes, int *out_memfd, struct local_map **out_map);
/* Checks a memfd of the peer and maps it. The caller must close memfd. Returns ERR_PROTOCOL if the
 * memfd has a wrong size, seals or file system. */
tcpx_status local_map_import(int memfd, uint64_t ring_bytes, struct local_map **out_map);
void local_map_put(struct local_map *map);
/* Makes a channel from a connected socket and a map. On success the channel owns fd and one
 * reference to the map. `side` is 0 for the dialler, 1 for the acceptor. */
tcpx_status local_chan_create(int fd, struct local_map *map, size_t ring_bytes, int side,
			      struct net_chan **out_chan);
/* Whether a ring may have this size: a power of two from LOCAL_RING_MIN to LOCAL_RING_MAX. */
int local_ring_bytes_ok(uint64_t ring_bytes);

/* In local_fetch.c. Sends n bytes, for which there must be room, and fd, which the caller keeps. */
tcpx_status local_pass(int sock, const void *bytes, size_t n, int fd);
/* Receives as recv() does. Stores a descriptor in *inout_fd if that is -1; closes all others. */
ssize_t local_pass_recv(int sock, void *bytes, size_t n, int *inout_fd);

/* Used by local_dial.c and local_listen.c. */
#define LOCAL_MAGIC 0x3176676e69727874ull
#define LOCAL_VERSION 2

/* Flag of a hello: the dialler waits for an answer of one byte, ANSWER_TAKEN or ANSWER_REFUSED. A
 * listener of another user sends ANSWER_REFUSED before it reads the hello. */
#define LOCAL_WANTS_ANSWER 1u
#define LOCAL_ANSWER_TAKEN 1
#define LOCAL_ANSWER_REFUSED 2

/* Magic of a hello that asks for a descriptor. ring_bytes is then the descriptor's number, and no
 * memfd comes with the hello. */
#define LOCAL_FETCH_MAGIC 0x3166676e69727874ull

/* The first message of the dialler. A hello for a channel is sent with the memfd. The byte order is
 * native, because both ends are on one host. */
struct local_hello {
	uint64_t magic;
	uint32_t version, epoch;
	uint64_t ring_bytes;
	uint16_t channel, flags, zero[2];
	uint8_t nonce[LOCAL_NONCE_BYTES];
};

static_assert(sizeof(struct local_hello) == 64, "hello without padding");

struct sockaddr_un;
/* Connects to the listener called `name` and checks that it belongs to this process's user. */
tcpx_status local_dial_socket(const char *name, int *out_fd);
/* Whether the other end of a unix socket belongs to this process's user; *out_uid becomes the other
 * end's user, or -1 if that is not known. Both ends check this. Root is treated like any other
 * user; otherwise one end could allow a channel that the other end refuses. */
bool local_same_user(int fd, unsigned *out_uid);
/* Builds the abstract unix address for a name; returns the length of the address. */
unsigned local_address(const char *name, struct sockaddr_un *out_addr);

#endif
