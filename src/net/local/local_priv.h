/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of a same-host channel: the shared header, the channel, and the functions that its
 * files share. */
#ifndef NET_LOCAL_LOCAL_PRIV_H
#define NET_LOCAL_LOCAL_PRIV_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "net/local/local.h"

#define LOCAL_LINE 128 /* two cache lines, because they are fetched in pairs */
#define LOCAL_HEADER_BYTES                                                                         \
	(64u << 10)		 /* the largest supported page size, so that rings are aligned */
#define LOCAL_PIECE (128u << 10) /* a cursor is published after this many bytes */

/*
 * One direction. Each line is written by one side, except the wait words, which the other side
 * resets to 0 when it rings. Cursors count bytes since the beginning and never decrease. Nothing
 * here is trusted: a side keeps its own cursor in private memory and only publishes it.
 */
struct local_lane {
	alignas(LOCAL_LINE) _Atomic uint64_t head; /* producer's */
	_Atomic uint32_t head_wait;   /* the producer sleeps: ring when there is room */
	_Atomic uint32_t head_closed; /* the producer closed in an orderly way */
	alignas(LOCAL_LINE) _Atomic uint64_t tail; /* consumer's */
	_Atomic uint32_t tail_wait;   /* the consumer sleeps: ring at this many bytes */
	_Atomic uint32_t tail_closed; /* the consumer closed in an orderly way */
};

/*
 * A piece of the producer's memory that the consumer reads directly, instead of the same number of
 * bytes of the ring. Its place in the stream is the ring cursor "at": after all ring bytes before
 * it. The side that changes state from OUT by compare-and-swap gets the memory: the consumer with
 * READING, the producer with BACK. docs/design/local.md has the rules.
 */
#define LOCAL_LOANS 8u		   /* at a time, per direction */
#define LOCAL_LEND_MIN (32u << 10) /* smaller pieces are copied */
#define LOCAL_LEND_MAX (1ull << 40)

enum local_loan_state {
	LOAN_NONE = 0,
	LOAN_OUT,     /* lent, and not being read */
	LOAN_READING, /* the consumer is reading */
	LOAN_BACK,    /* the producer took it back: its rest is torn */
	LOAN_FAILED,  /* the consumer could not read it and will not try again: its rest is torn */
	LOAN_OVER,    /* the consumer is past it: the entry is free */
};

struct local_loan {
	_Atomic uint32_t state;
	_Atomic uint32_t error; /* errno of FAILED; stays through OVER */
	_Atomic uint64_t addr, bytes, at;
};

struct local_loans {
	alignas(LOCAL_LINE) _Atomic uint64_t head; /* producer's: number of loans since the
						    * beginning */
	struct local_loan loan[LOCAL_LOANS];
};

#define LOCAL_SECRET_BYTES 16

/* Published by a side that wants to lend to another process: where the reader finds the secret that
 * proves this side. */
struct local_offer {
	_Atomic uint32_t ready;
	_Atomic uint32_t reads; /* this side can read the other's memory */
	uint64_t addr;
	uint8_t secret[LOCAL_SECRET_BYTES];
};

struct local_header {
	struct local_lane lane[2]; /* dialler to acceptor, acceptor to dialler */
	struct local_loans loans[2];
	struct local_offer offer[2]; /* the dialler's, the acceptor's */
	_Atomic uint32_t holds[2];   /* per side: regions of the other side that it reads
				      * directly */
};

static_assert(sizeof(struct local_header) <= LOCAL_HEADER_BYTES, "header outgrew its place");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "cursors are shared between processes");

struct local_map {
	uint8_t *base;
	size_t bytes;
	_Atomic int refs; /* 2 for a pair in one process */
};

/*
 * Memory that was received into lately: a buffer that is used again within a few MiB is in the
 * cache and should stay there; others are written with non-temporal stores.
 */
#define LOCAL_HEAT_BLOCK (64u << 10)
#define LOCAL_HEAT_SLOTS 32u
#define LOCAL_AROUND_MIN (32u << 10)
struct local_heat {
	uintptr_t block[LOCAL_HEAT_SLOTS];
};

/* How a loan is read, see local_share.c. */
enum local_copy {
	COPY_RING,   /* not at all: two copies through the ring */
	COPY_DIRECT, /* memcpy: both ends are in this process */
	COPY_PEER,   /* process_vm_readv by the consumer, after it reported that it can */
};

struct local_direct;

/* The private record of a loan at its producer; the fields in shared memory are untrusted. */
struct local_lent {
	uint64_t begin; /* in bytes of the stream */
	int home;	/* the memory was returned to the producer */
};

/* Private copy of the loan that the consumer reads. */
struct local_borrowed {
	uint64_t addr, left, at;
	int known;
	int torn; /* the rest is counted but not read */
};

enum local_role { LOCAL_RX, LOCAL_TX };

struct local_chan {
	struct net_chan base;
	int fd;
	size_t ring_bytes;
	struct local_map *map;
	struct local_lane *out, *in;
	uint8_t *out_ring, *in_ring;

	_Atomic int end;  /* a status: ended in both directions (PROTOCOL, DISCONNECTED) */
	_Atomic int gone; /* a status: the peer left; bytes that it sent before still count */

	/* The doorbell, see local_bell.c. */
	_Atomic int armed[2]; /* per role: its owner may be asleep */
	_Atomic int owed;     /* the socket may have bells that were not read yet */
	atomic_flag draining;

	/* For info: last observed progress of the peer. */
	_Atomic uint64_t info_tail;
	_Atomic int64_t info_ns;

	/* Lending; set while the channel is made. */
	enum local_copy copy;
	int side;
	int pid;		     /* of the peer, according to the kernel */
	struct local_direct *direct; /* COPY_DIRECT: what both ends share */
	struct local_loans *lend_to; /* NULL: never lend */
	_Atomic uint32_t *lend_ok;   /* lend if it is set */

	/* tx owner's */
	alignas(LOCAL_LINE) uint64_t head;
	uint64_t tail_seen, punched;
	unsigned full_count;
	uint64_t put, counted; /* bytes of the stream: put: passed to the transport; counted:
				* reported by a call */
	uint64_t loan_head, loan_first; /* loan_head: made; loan_first: the first one whose memory
					 * is not returned */
	struct local_lent lent[LOCAL_LOANS];
	int lent_failed; /* to be reported by the next call */
	int put_failed;	 /* the memory of the last piece put has vanished */

	/* rx owner's */
	alignas(LOCAL_LINE) uint64_t tail;
	uint64_t head_seen;
	_Atomic size_t mark;
	unsigned empty_count;
	struct local_heat heat;
	struct local_loans *borrow; /* NULL: loans of the peer are ignored */
	uint64_t loan_tail;
	struct local_borrowed loan;
	int torn;      /* the bytes of the last recv are torn */
	int probe_due; /* COPY_PEER: it is unknown yet whether the memory of the peer can be read */
	uint64_t peer_addr;
	uint8_t peer_secret[LOCAL_SECRET_BYTES];
};

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
/* tx owner. Lends a piece at the position of head: 1; 0: no free entry, or the consumer is not done
 * with it. */
int local_loan_make(struct local_chan *chan, const void *addr, size_t bytes);
/* Within one process a loan is read by memcpy, which must not be used for memory that may
 * vanish. */
static inline int local_loan_may(const struct local_chan *chan)
{
	return chan->copy != COPY_DIRECT || !chan->base.tx_vanishing;
}
/* tx owner: finds the loans that ended. Returns 1 if one failed and that was not reported yet. */
int local_loan_settle(struct local_chan *chan);
static inline uint64_t local_lent_count(const struct local_chan *chan)
{
	return chan->loan_head - chan->loan_first;
}
/* tx owner, before it sleeps: whether the first loan has ended meanwhile. */
int local_loan_ended(struct local_chan *chan);
/* rx owner: 1 if chan->loan is the next loan, whose position is not before the cursor. */
int local_loan_look(struct local_chan *chan);
/* rx owner, with a loan at the cursor: reads its bytes, or returns the end of the channel. */
tcpx_status local_loan_recv(struct local_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);

/* local_share.c */
struct local_hello;
/* Called before the hello is sent, and when it arrived: negotiates how loans are read. */
void local_share_dial(struct local_chan *chan, int memfd, const struct local_hello *hello);
void local_share_accept(struct local_chan *chan, int memfd, const struct local_hello *hello);
void local_share_end(struct local_chan *chan);
void local_share_probe(struct local_chan *chan); /* rx owner, while probe_due */
int local_share_peer_gone(const struct local_chan *chan);
void local_hold(struct net_chan *chan, int on);
int local_held(struct net_chan *chan);
/* How tx copies now: "ring", "memcpy", "one-copy". */
const char *local_share_name(const struct local_chan *chan);

/* local_copy.c */
void local_copy_in(uint8_t *ring, const uint8_t *user, size_t n);
void local_copy_out(struct local_heat *heat, uint8_t *user, const uint8_t *ring, size_t n);

/* local_bell.c */
/* Reason why a producer sleeps, in its wait word. */
#define LOCAL_WAIT_ROOM 1u
#define LOCAL_WAIT_LOAN 2u
int local_arm(struct net_chan *chan, int want_recv, int want_send, uint32_t *out_events);
/* A sleeping producer is woken at this much room; below half, so that a consumer that waits for its
 * mark (at most half) never waits for a sleeping producer. */
static inline uint64_t local_room_mark(const struct local_chan *chan)
{
	return chan->ring_bytes / 4;
}
void local_bell_ring(struct local_chan *chan, _Atomic uint32_t *wait);
/* The owner of role is awake again: 1 if it had been armed. */
int local_bell_back(struct local_chan *chan, enum local_role role);
void local_bell_missed(struct local_chan *chan); /* woken without a reason: the socket has a stale
						  * bell */
void local_peer_closed(struct local_chan *chan); /* the peer set its closed flag */
/* Checks by the socket whether the peer still exists; sets gone. */
void local_peer_check(struct local_chan *chan);
void local_die(struct local_chan *chan, tcpx_status status); /* ends both directions and wakes all
							      * sleepers */

/* local_chan.c */
tcpx_status local_map_create(size_t ring_bytes, int *out_memfd, struct local_map **out_map);
/* Checks a memfd of a peer, then maps it. The caller keeps and closes memfd. */
tcpx_status local_map_import(int memfd, uint64_t ring_bytes, struct local_map **out_map);
void local_map_put(struct local_map *map);
/* Owns fd and one reference of map on success. side 0: the dialler. */
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

/* A request for the descriptor whose number is in ring_bytes; no descriptor comes with it. */
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
