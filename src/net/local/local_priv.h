/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the files of the same-host transport share. */
#ifndef NET_LOCAL_LOCAL_PRIV_H
#define NET_LOCAL_LOCAL_PRIV_H

#include "net/local/local_chan.h"

extern const struct net_ops local_ops;

/* local_ring.c */
tcpx_status local_send(struct net_chan *chan, const struct iovec *iov, int niov, size_t *out_bytes);
tcpx_status local_recv(struct net_chan *chan, const struct iovec *iov, int niov, size_t *out_bytes);
/* Readable and writable bytes now; 0 with chan->end set if the cursor of the peer is invalid. */
uint64_t local_readable(struct local_chan *chan); /* rx owner */
uint64_t local_room(struct local_chan *chan);	  /* tx owner */

/* local_loan.c */
tcpx_status local_lend(struct net_chan *chan, const struct iovec *iov, int niov, size_t *out_bytes);
void local_lent(struct net_chan *chan, int take_back, struct net_lent *out_lent);
int local_torn(struct net_chan *chan);
/* tx owner. Lends a piece at the position of head. Returns 0 if no entry is free, or the consumer
 * is not done with the next one. */
int local_loan_make(struct local_chan *chan, const void *addr, size_t bytes);
/* Whether this channel may lend. Within one process a loan is read by memcpy, which must not be
 * used for memory that may vanish. */
static inline int local_loan_may(const struct local_chan *chan)
{
	return chan->copy != COPY_DIRECT || !chan->base.tx_vanishing;
}
/* tx owner: finds the loans that ended. Returns 1 if one failed and that was not reported yet. */
int local_loan_settle(struct local_chan *chan);
static inline uint64_t local_lent_count(const struct local_chan *chan)
{
	return chan->tx.loan_head - chan->tx.loan_first;
}
/* tx owner, before it sleeps: whether the first loan has ended meanwhile. */
int local_loan_ended(struct local_chan *chan);
/* rx owner: puts the next loan into chan->rx.loan; returns 0 if there is none. The loan's position
 * is not before the cursor. */
int local_loan_look(struct local_chan *chan);
/* rx owner, with a loan at the cursor: reads its bytes, or returns the status with which the
 * channel ended. */
tcpx_status local_loan_recv(struct local_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);

/* local_share.c */
struct local_hello;
/* Negotiate how loans are read. Called before the hello is sent, and after it has arrived. */
void local_share_dial(struct local_chan *chan, int memfd, const struct local_hello *hello);
void local_share_accept(struct local_chan *chan, int memfd, const struct local_hello *hello);
void local_share_end(struct local_chan *chan);
void local_share_probe(struct local_chan *chan); /* rx owner, while probe_due */
int local_share_peer_gone(const struct local_chan *chan);
void local_reading_set(struct net_chan *chan, int on);
int local_reading_peer(struct net_chan *chan);
/* How bytes that this side sends are copied now: "ring", "memcpy", "one-copy". */
const char *local_share_name(const struct local_chan *chan);

/* local_copy.c */
void local_copy_in(uint8_t *ring, const uint8_t *user, size_t n);
void local_copy_out(struct local_heat *heat, uint8_t *user, const uint8_t *ring, size_t n);

/* local_bell.c */
/* Reasons why a producer sleeps, as its wait word has them. */
#define LOCAL_WAIT_ROOM 1u
#define LOCAL_WAIT_LOAN 2u
int local_arm(struct net_chan *chan, int want_recv, int want_send, uint32_t *out_events);
/* A sleeping producer is woken when this many bytes of the ring are free. This is below half,
 * because a consumer may sleep until half a ring has arrived (its mark), and the producer must not
 * sleep then. */
static inline uint64_t local_room_mark(const struct local_chan *chan)
{
	return chan->ring_bytes / 4;
}
void local_bell_ring(struct local_chan *chan, _Atomic uint32_t *wait);
/* Called when the owner of role is awake again; returns 1 if the role was armed. */
int local_bell_back(struct local_chan *chan, enum local_role role);
void local_bell_missed(struct local_chan *chan); /* woken without a reason: the socket has a stale
						  * bell */
void local_peer_closed(struct local_chan *chan); /* the peer set its closed flag */
/* Checks by the socket whether the peer still exists; if not, sets chan->gone. */
void local_peer_check(struct local_chan *chan);
void local_die(struct local_chan *chan, tcpx_status status); /* ends both directions and wakes all
							      * sleepers */

/* local_chan.c */
tcpx_status local_map_create(size_t ring_bytes, int *out_memfd, struct local_map **out_map);
/* Checks a memfd of a peer, then maps it. The caller keeps and closes memfd. */
tcpx_status local_map_import(int memfd, uint64_t ring_bytes, struct local_map **out_map);
void local_map_put(struct local_map *map);
/* On success the channel owns fd and one reference to map. side 0: the dialler. */
tcpx_status local_chan_create(int fd, struct local_map *map, size_t ring_bytes, int side,
			      struct net_chan **out_chan);
int local_ring_bytes_ok(uint64_t ring_bytes);

/* local_fetch.c */
/* Sends n bytes and a descriptor, which the caller keeps, over a socket that has room. */
tcpx_status local_pass(int sock, const void *bytes, size_t n, int fd);
/* Like recv. A received descriptor is stored in *inout_fd if that is -1; further ones are
 * closed. */
ssize_t local_pass_recv(int sock, void *bytes, size_t n, int *inout_fd);

/* local_dial.c, local_listen.c */
#define LOCAL_MAGIC 0x3176676e69727874ull
#define LOCAL_VERSION 2

/* Flag of a hello: the dialler waits for one of the answers, a single byte. An acceptor of another
 * user answers REFUSED before it reads the hello. */
#define LOCAL_WANTS_ANSWER 1u
#define LOCAL_ANSWER_TAKEN 1
#define LOCAL_ANSWER_REFUSED 2

/* Magic of a hello that asks for the descriptor whose number is in ring_bytes; no memfd comes with
 * it. */
#define LOCAL_FETCH_MAGIC 0x3166676e69727874ull

/* First message on the socket, sent with the memfd. Both ends are on one host, so it is in native
 * byte order. */
struct local_hello {
	uint64_t magic;
	uint32_t version, epoch;
	uint64_t ring_bytes;
	uint16_t channel, flags, zero[2];
	uint8_t nonce[LOCAL_NONCE_BYTES];
};

static_assert(sizeof(struct local_hello) == 64, "hello without padding");

struct sockaddr_un;
/* Connects to that listener and checks that it belongs to our user. */
tcpx_status local_dial_socket(const char *name, int *out_fd);
/* Whether the other end of a unix socket belongs to our user. Both ends use this check, and root is
 * a user like any other: a channel that only one end allowed would be refused too late. */
bool local_same_user(int fd, unsigned *out_uid);
/* Builds the abstract address of a name; returns its length. */
unsigned local_address(const char *name, struct sockaddr_un *out_addr);

#endif
