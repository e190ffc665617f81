/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a same-host channel: the shared header, the channel, what its files call of another. */
#ifndef NET_LOCAL_LOCAL_PRIV_H
#define NET_LOCAL_LOCAL_PRIV_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "net/local/local.h"

#define LOCAL_LINE 128 /* two cache lines: neighbours are fetched in pairs */
#define LOCAL_HEADER_BYTES                                                                         \
	(64u << 10)		 /* the largest page size we meet, so that rings are aligned */
#define LOCAL_PIECE (128u << 10) /* bytes between two publications of a cursor */

/*
 * One direction. Each line is written by one side, but for wait, which the other side takes back to
 * 0 when it rings. Cursors count bytes since the beginning and never run backwards.
 * Nothing here is trusted: a side keeps its own cursor in private memory and only publishes it.
 */
struct local_lane {
	alignas(LOCAL_LINE) _Atomic uint64_t head; /* producer's */
	_Atomic uint32_t head_wait;   /* the producer sleeps: ring when there is room */
	_Atomic uint32_t head_closed; /* the producer left orderly */
	alignas(LOCAL_LINE) _Atomic uint64_t tail; /* consumer's */
	_Atomic uint32_t tail_wait;   /* the consumer sleeps: ring from so many bytes on */
	_Atomic uint32_t tail_closed; /* the consumer left orderly */
};

/*
 * A piece of the producer's memory that the consumer reads from where it lies, in place of so many
 * bytes of the ring. Its place in the stream is the ring cursor "at": behind all ring bytes before
 * it. Whoever moves state from OUT with a compare and swap has the memory: the consumer by READING,
 * the producer by BACK. docs/design/local.md has the rules.
 */
#define LOCAL_LOANS 8u		   /* of one direction at once */
#define LOCAL_LEND_MIN (32u << 10) /* smaller pieces are copied */
#define LOCAL_LEND_MAX (1ull << 40)

enum local_loan_state {
	LOAN_NONE = 0,
	LOAN_OUT,     /* lent; nobody reads it now */
	LOAN_READING, /* the consumer is inside */
	LOAN_BACK,    /* the producer took it back: the rest of it is torn */
	LOAN_FAILED,  /* the consumer could not read it and never will: the rest is torn */
	LOAN_OVER,    /* the consumer is past it: the place is free */
};

struct local_loan {
	_Atomic uint32_t state;
	_Atomic uint32_t error; /* errno of FAILED; stays through OVER */
	_Atomic uint64_t addr, bytes, at;
};

struct local_loans {
	alignas(LOCAL_LINE) _Atomic uint64_t head; /* producer's: loans since the beginning */
	struct local_loan loan[LOCAL_LOANS];
};

#define LOCAL_SECRET_BYTES 16

/* A side that would lend to another process: where the reader finds the secret that proves it. */
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
	_Atomic uint32_t holds[2];   /* by side: memory of the other that it reads by other ways */
};

static_assert(sizeof(struct local_header) <= LOCAL_HEADER_BYTES, "header outgrew its place");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "cursors are shared between processes");

struct local_map {
	uint8_t *base;
	size_t bytes;
	_Atomic int refs; /* 2 for a pair in one process */
};

/*
 * Which memory was received into lately: a buffer that comes again within a few MiB is in the cache
 * and must stay there, any other is written around it.
 */
#define LOCAL_HEAT_BLOCK (64u << 10)
#define LOCAL_HEAT_SLOTS 32u
#define LOCAL_AROUND_MIN (32u << 10)
struct local_heat {
	uintptr_t block[LOCAL_HEAT_SLOTS];
};

/* Who reads a loan, see local_share.c. */
enum local_copy {
	COPY_RING,   /* nobody: two copies */
	COPY_DIRECT, /* memcpy: both ends are in this process */
	COPY_PEER,   /* process_vm_readv by the consumer, once it said that it can */
};

struct local_direct;

/* A loan as its producer remembers it; what lies in shared memory is a claim. */
struct local_lent {
	uint64_t begin; /* in bytes of the stream */
	int home;	/* the memory is the producer's again */
};

/* The loan that the consumer is at, copied once. */
struct local_borrowed {
	uint64_t addr, left, at;
	int known;
	int torn; /* the rest is counted and not read */
};

enum local_role { LOCAL_RX, LOCAL_TX };

struct local_chan {
	struct net_chan base;
	int fd;
	size_t ring_bytes;
	struct local_map *map;
	struct local_lane *out, *in;
	uint8_t *out_ring, *in_ring;

	_Atomic int end;  /* a status: dead both ways (PROTOCOL, DISCONNECTED) */
	_Atomic int gone; /* a status: the peer left; what it sent before still counts */

	/* The doorbell, see local_bell.c. */
	_Atomic int armed[2]; /* by role: its owner may be asleep for it */
	_Atomic int owed;     /* the socket may hold bells that nobody took yet */
	atomic_flag draining;

	/* For info: the peer's progress as last seen there. */
	_Atomic uint64_t info_tail;
	_Atomic int64_t info_ns;

	/* Lending; set while the channel is made. */
	enum local_copy copy;
	int side;
	int pid;		     /* of the peer, as the kernel says */
	struct local_direct *direct; /* COPY_DIRECT: what both ends share */
	struct local_loans *lend_to; /* NULL: never */
	_Atomic uint32_t *lend_ok;   /* lend when it says so */

	/* tx owner's */
	alignas(LOCAL_LINE) uint64_t head;
	uint64_t tail_seen, punched;
	unsigned full_count;
	uint64_t put, counted; /* bytes of the stream: with the transport, reported by a call */
	uint64_t loan_head, loan_first; /* made; the first whose memory is not home */
	struct local_lent lent[LOCAL_LOANS];
	int lent_failed; /* to be told by the next call */
	int put_failed;	 /* the memory of the last piece put has vanished */

	/* rx owner's */
	alignas(LOCAL_LINE) uint64_t tail;
	uint64_t head_seen;
	_Atomic size_t mark;
	unsigned empty_count;
	struct local_heat heat;
	struct local_loans *borrow; /* NULL: the peer's loans are not looked at */
	uint64_t loan_tail;
	struct local_borrowed loan;
	int torn;      /* what the last recv returned is */
	int probe_due; /* COPY_PEER: not known yet whether the peer can be read */
	uint64_t peer_addr;
	uint8_t peer_secret[LOCAL_SECRET_BYTES];
};

extern const struct net_ops local_ops;

/* local_ring.c */
tcpx_status local_send(struct net_chan *chan, const struct iovec *iov, int niov, size_t *out_bytes);
tcpx_status local_recv(struct net_chan *chan, const struct iovec *iov, int niov, size_t *out_bytes);
/* Readable bytes, writable bytes, as of now; 0 with chan->end set when the peer's cursor lies. */
uint64_t local_readable(struct local_chan *chan); /* rx owner */
uint64_t local_room(struct local_chan *chan);	  /* tx owner */

/* local_loan.c */
tcpx_status local_lend(struct net_chan *chan, const struct iovec *iov, int niov, size_t *out_bytes);
void local_lent(struct net_chan *chan, int take_back, struct net_lent *out_lent);
int local_torn(struct net_chan *chan);
/* tx owner. Lends a piece at the place of head: 1; 0: no place, or the peer reads none. */
int local_loan_make(struct local_chan *chan, const void *addr, size_t bytes);
/* In one process a loan is read by memcpy, which memory that may vanish is not for. */
static inline int local_loan_may(const struct local_chan *chan)
{
	return chan->copy != COPY_DIRECT || !chan->base.tx_vanishing;
}
/* tx owner: sees which loans ended. Returns 1 when one failed and nobody was told. */
int local_loan_settle(struct local_chan *chan);
static inline uint64_t local_lent_count(const struct local_chan *chan)
{
	return chan->loan_head - chan->loan_first;
}
/* tx owner, before it sleeps: has the first loan ended meanwhile? */
int local_loan_ended(struct local_chan *chan);
/* rx owner: 1 when chan->loan is the next one, before or at the cursor's place. */
int local_loan_look(struct local_chan *chan);
/* rx owner, with a loan at the cursor: its bytes, or the end of the channel. */
tcpx_status local_loan_recv(struct local_chan *chan, const struct iovec *iov, int niov,
			    size_t *out_bytes);

/* local_share.c */
struct local_hello;
/* Before the hello leaves, and when it came: agrees on how loans are read. */
void local_share_dial(struct local_chan *chan, int memfd, const struct local_hello *hello);
void local_share_accept(struct local_chan *chan, int memfd, const struct local_hello *hello);
void local_share_end(struct local_chan *chan);
void local_share_probe(struct local_chan *chan); /* rx owner, while probe_due */
int local_share_peer_gone(const struct local_chan *chan);
void local_hold(struct net_chan *chan, int on);
int local_held(struct net_chan *chan);
/* What tx uses now: "ring", "memcpy", "one-copy". */
const char *local_share_name(const struct local_chan *chan);

/* local_copy.c */
void local_copy_in(uint8_t *ring, const uint8_t *user, size_t n);
void local_copy_out(struct local_heat *heat, uint8_t *user, const uint8_t *ring, size_t n);

/* local_bell.c */
/* What a sleeping producer waits for, in its wait word. */
#define LOCAL_WAIT_ROOM 1u
#define LOCAL_WAIT_LOAN 2u
int local_arm(struct net_chan *chan, int want_recv, int want_send, uint32_t *out_events);
/* Room from which a sleeping producer is woken; below half, so that a consumer waiting for its mark
 * (at most half) never faces a sleeping producer. */
static inline uint64_t local_room_mark(const struct local_chan *chan)
{
	return chan->ring_bytes / 4;
}
void local_bell_ring(struct local_chan *chan, _Atomic uint32_t *wait);
/* The owner of role is back: 1 when it had been armed. */
int local_bell_back(struct local_chan *chan, enum local_role role);
void local_bell_missed(struct local_chan *chan); /* woken for nothing: a stale bell lies there */
void local_peer_closed(struct local_chan *chan); /* its flag says so */
/* Asks the socket whether the peer is still there; sets gone. */
void local_peer_check(struct local_chan *chan);
void local_die(struct local_chan *chan, tcpx_status status); /* both ways, wakes everybody */

/* local_chan.c */
tcpx_status local_map_create(size_t ring_bytes, int *out_memfd, struct local_map **out_map);
/* A peer's memfd: checked before it is mapped. Keeps memfd open; the caller closes it. */
tcpx_status local_map_import(int memfd, uint64_t ring_bytes, struct local_map **out_map);
void local_map_put(struct local_map *map);
/* Owns fd and one reference of map on success. side 0: the dialler. */
tcpx_status local_chan_create(int fd, struct local_map *map, size_t ring_bytes, int side,
			      struct net_chan **out_chan);
int local_ring_bytes_ok(uint64_t ring_bytes);

/* local_fetch.c */
/* n bytes and a descriptor, which stays the caller's, over a socket that has room. */
tcpx_status local_pass(int sock, const void *bytes, size_t n, int fd);
/* As recv. A descriptor that comes lands in *inout_fd where that is -1, any other one is closed. */
ssize_t local_pass_recv(int sock, void *bytes, size_t n, int *inout_fd);

/* local_dial.c, local_listen.c */
#define LOCAL_MAGIC 0x3176676e69727874ull
#define LOCAL_VERSION 2

/* Flag of a hello: the dialler waits for one of the answers, a byte. An acceptor of another user
 * answers REFUSED before it reads the hello. */
#define LOCAL_WANTS_ANSWER 1u
#define LOCAL_ANSWER_TAKEN 1
#define LOCAL_ANSWER_REFUSED 2

/* A question for a descriptor, which ring_bytes numbers; nothing goes with it. */
#define LOCAL_FETCH_MAGIC 0x3166676e69727874ull

/* First message on the socket, with the memfd. One host, so in its byte order. */
struct local_hello {
	uint64_t magic;
	uint32_t version, epoch;
	uint64_t ring_bytes;
	uint16_t channel, flags, zero[2];
	uint8_t nonce[LOCAL_NONCE_BYTES];
};

static_assert(sizeof(struct local_hello) == 64, "hello without padding");

struct sockaddr_un;
/* A connection to that listener, proven to be our user's. */
tcpx_status local_dial_socket(const char *name, int *out_fd);
/* The other end of a unix socket belongs to our user. Both ends judge by this, and root is a user
 * like any other: what only one of them allowed would be refused too late. */
bool local_same_user(int fd, unsigned *out_uid);
/* The abstract address of a name; returns its length. */
unsigned local_address(const char *name, struct sockaddr_un *out_addr);

#endif
