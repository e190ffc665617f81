/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the memory that the two ends of a same-host channel share. */
#ifndef NET_LOCAL_LOCAL_SHM_H
#define NET_LOCAL_LOCAL_SHM_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#define LOCAL_LINE 128 /* two cache lines, because they are fetched in pairs */
#define LOCAL_HEADER_BYTES                                                                         \
	(64u << 10)		 /* the largest supported page size, so that rings are aligned */
#define LOCAL_PIECE (128u << 10) /* a cursor is published after this many bytes */

/*
 * One direction. Each LOCAL_LINE is written by one side, except that the other side resets the
 * wait word to 0 when it rings. Cursors count bytes since the beginning of the channel and never
 * decrease. A side trusts nothing that it reads here: it keeps its own cursor in private memory
 * and only publishes it here.
 */
struct local_lane {
	alignas(LOCAL_LINE) _Atomic uint64_t head; /* the producer's cursor */
	/* not 0: the producer sleeps, for LOCAL_WAIT_ROOM or LOCAL_WAIT_LOAN */
	_Atomic uint32_t head_wait;
	_Atomic uint32_t head_closed;		   /* the producer closed in an orderly way */
	alignas(LOCAL_LINE) _Atomic uint64_t tail; /* the consumer's cursor */
	/* not 0: the consumer sleeps, and must be woken when this many bytes are there */
	_Atomic uint32_t tail_wait;
	_Atomic uint32_t tail_closed; /* the consumer closed in an orderly way */
};

/*
 * A loan: a piece of the producer's memory that the consumer reads directly, while the bytes of
 * the ring go on after it. `at` is its place in the stream: the ring cursor after all ring bytes
 * that come before it. The side that changes state from OUT by compare-and-swap gets the memory:
 * the consumer with READING, the producer with BACK. Bytes of a torn rest are counted, but their
 * content is not valid. docs/design/local.md has the rules.
 */
#define LOCAL_LOANS 8u		    /* most loans at a time, per direction */
#define LOCAL_LEND_MIN (32u << 10)  /* smaller pieces are copied */
#define LOCAL_LEND_MAX (1ull << 40) /* most bytes of a loan */

enum local_loan_state {
	LOAN_NONE = 0,
	LOAN_OUT,     /* lent, and not being read */
	LOAN_READING, /* the consumer is reading */
	LOAN_BACK,    /* the producer took it back: its rest is torn */
	LOAN_FAILED,  /* the consumer could not read it and will not try again: its rest is torn */
	LOAN_OVER,    /* the consumer has passed it: the entry is free */
};

struct local_loan {
	_Atomic uint32_t state;
	_Atomic uint32_t error; /* errno of LOAN_FAILED; stays when the state becomes LOAN_OVER */
	_Atomic uint64_t addr, bytes, at; /* the producer's address; length; ring cursor */
};

/* The loans of one producer: loan n is in entry n % LOCAL_LOANS. */
struct local_loans {
	alignas(LOCAL_LINE) _Atomic uint64_t head; /* number of loans that the producer has made */
	struct local_loan loan[LOCAL_LOANS];
};

#define LOCAL_SECRET_BYTES 16

/* Published by a side that wants to lend to another process: where the consumer finds the secret
 * that proves that this side's memory is being read. */
struct local_offer {
	_Atomic uint32_t ready; /* 1: addr and secret are set */
	_Atomic uint32_t reads; /* 1: this side can read the other side's memory */
	uint64_t addr;		/* address of the secret in the memory of this side */
	uint8_t secret[LOCAL_SECRET_BYTES];
};

/* The beginning of the shared memory; the two rings follow after LOCAL_HEADER_BYTES. */
struct local_header {
	struct local_lane lane[2];   /* dialler to acceptor, acceptor to dialler */
	struct local_loans loans[2]; /* index: side of the producer */
	struct local_offer offer[2]; /* of the dialler; of the acceptor */
	/* per side: number of the other side's regions that it reads */
	_Atomic uint32_t holds[2];
};

static_assert(sizeof(struct local_header) <= LOCAL_HEADER_BYTES, "header outgrew its place");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "cursors are shared between processes");

#endif
