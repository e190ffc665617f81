/* SPDX-License-Identifier: Apache-2.0 */
/* The private structs of one end of a same-host channel. */
#ifndef NET_LOCAL_LOCAL_CHAN_H
#define NET_LOCAL_LOCAL_CHAN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "net/local/local.h"
#include "net/local/local_shm.h"

/* The mapping of a channel's shared memory. */
struct local_map {
	uint8_t *base;
	size_t bytes;
	_Atomic int refs; /* channels that use it: one, or the two that local_pair made */
};

/*
 * Blocks of memory that were received into lately. Memory that is received into again within a few
 * MiB is still in the cache and should stay there, so it is written with ordinary stores; other
 * memory is written with non-temporal stores (local_copy.c).
 */
#define LOCAL_HEAT_BLOCK (64u << 10)
#define LOCAL_HEAT_SLOTS 32u
#define LOCAL_AROUND_MIN (32u << 10) /* least bytes written with non-temporal stores */
struct local_heat {
	/* address / LOCAL_HEAT_BLOCK of each block, at that number modulo LOCAL_HEAT_SLOTS */
	uintptr_t block[LOCAL_HEAT_SLOTS];
};

/* How the consumer reads a loan, see local_share.c. */
enum local_copy {
	COPY_RING,   /* there are no loans: two copies through the ring */
	COPY_DIRECT, /* memcpy: both ends are in this process */
	COPY_PEER,   /* process_vm_readv by the consumer, after it has reported that it can read */
};

struct local_direct;

/* The producer's private record of a loan; its fields in shared memory are untrusted. */
struct local_lent {
	uint64_t begin; /* position of its first byte in the stream */
	int home;	/* 1: its memory is the producer's again */
};

/* The consumer's private copy of the loan that it reads: the producer cannot change it. */
struct local_borrowed {
	uint64_t addr, left; /* the producer's address of the next byte; bytes not yet read */
	uint64_t at;	     /* ring cursor at which the loan's bytes come */
	int known;	     /* 1: the fields above are valid */
	int torn;	     /* 1: the rest of its bytes is counted but not read */
};

enum local_role { LOCAL_RX, LOCAL_TX };

/* What this side knows of the doorbell, see local_bell.c. */
struct local_bell {
	_Atomic int armed[2]; /* per role: 1: the thread that owns it may be asleep */
	_Atomic int owed;     /* 1: the socket may have bells that were not read yet */
	atomic_flag draining; /* set while a thread reads bells */
};

/* For net_ops.info: when the peer last made progress. */
struct local_progress {
	_Atomic uint64_t moved; /* bytes and loans that the peer had finished at the time `ns` */
	_Atomic int64_t ns;
};

/* State of the sending direction; only its owner accesses it. */
struct local_tx {
	alignas(LOCAL_LINE) uint64_t head;
	/* the peer's tail when last read; head when the ring's pages were last given back */
	uint64_t tail_seen, punched;
	unsigned full_count; /* calls in a row that found no room */
	/* Positions in the stream, in bytes. put: the end of what was copied into the ring or
	 * lent; counted: the end of what calls have reported as sent. */
	uint64_t put, counted;
	/* Numbers of loans, counted from 0. loan_head: the next one; loan_first: the first whose
	 * memory is not the producer's again. */
	uint64_t loan_head, loan_first;
	struct local_lent lent[LOCAL_LOANS];
	int lent_failed; /* 1: a loan failed, which the next send or lend reports */
	int put_failed;	 /* 1: the memory of the last piece copied into the ring has vanished */
};

/* State of the receiving direction; only its owner accesses it, except for mark. */
struct local_rx {
	alignas(LOCAL_LINE) uint64_t tail;
	uint64_t head_seen;   /* the peer's head when last read */
	_Atomic size_t mark;  /* bytes that must be there before this side is woken */
	unsigned empty_count; /* calls in a row that found nothing */
	struct local_heat heat;
	struct local_loans *borrow; /* the peer's loans; NULL: they are ignored */
	uint64_t loan_tail;	    /* number of the next loan to read */
	struct local_borrowed loan;
	int torn;      /* 1: the bytes that the last recv returned are torn */
	int probe_due; /* COPY_PEER: 1: it is not known yet whether the peer's memory can be read */
	uint64_t peer_addr; /* address of the secret in the peer's memory */
	uint8_t peer_secret[LOCAL_SECRET_BYTES];
};

struct local_chan {
	struct net_chan base;
	int fd; /* the unix socket */
	size_t ring_bytes;
	struct local_map *map;
	struct local_lane *out, *in;
	uint8_t *out_ring, *in_ring;

	/* a status, not 0: this side ended both directions (PROTOCOL, PEER_RESET, DISCONNECTED) */
	_Atomic int end;
	/* a status, not 0: the peer left; bytes that it sent before are still received */
	_Atomic int gone;

	struct local_bell bell;
	struct local_progress progress;

	/* What this end needs to lend and to read loans; set while the channel is made. */
	enum local_copy copy;
	int side;		     /* 0: the dialler; 1: the acceptor */
	int pid;		     /* pid of the peer, according to the kernel */
	struct local_direct *direct; /* COPY_DIRECT: loans of both directions */
	struct local_loans *lend_to; /* this side's loans; NULL: it never lends */
	_Atomic uint32_t *lend_ok;   /* this side lends only while *lend_ok is not 0 */

	struct local_tx tx;
	struct local_rx rx;
};

#endif
