/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the memory that the two ends of a same-host channel share. */
#ifndef NET_LOCAL_LOCAL_SHM_H
#define NET_LOCAL_LOCAL_SHM_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#define LOCAL_LINE 128 /* two cache lines, because processors fetch them in pairs */
#define LOCAL_HEADER_BYTES                                                                         \
	(64u << 10)		 /* the largest supported page size, so that rings are aligned */
#define LOCAL_PIECE (128u << 10) /* a cursor is published each time this many bytes were copied */

/*
 * The shared state of one direction. Each group of LOCAL_LINE bytes is written by one side, except
 * that the other side resets the wait word to 0 before it sends a bell. Cursors count bytes since
 * the channel was made and never decrease. A side trusts no value in this struct: its own cursor in
 * private memory decides where it copies, and the cursor here is only a copy of that.
 */
struct local_direction {
	alignas(LOCAL_LINE) _Atomic uint64_t head; /* the producer's cursor */
	/* not 0 while the producer sleeps: LOCAL_WAIT_ROOM or LOCAL_WAIT_LOAN */
	_Atomic uint32_t head_wait;
	_Atomic uint32_t head_closed;		   /* 1 after an orderly close by the producer */
	alignas(LOCAL_LINE) _Atomic uint64_t tail; /* the consumer's cursor */
	/* not 0 while the consumer sleeps: number of readable bytes at which to wake it */
	_Atomic uint32_t tail_wait;
	_Atomic uint32_t tail_closed; /* 1 after an orderly close by the consumer */
};

/*
 * A loan: a piece of the producer's memory that the consumer reads directly, not through the ring.
 * `at` is its position in the stream: the value of the ring cursor after all ring bytes that come
 * before the loan. The side that changes `state` from OUT by compare-and-swap gets access to the
 * memory: the consumer by READING, the producer by BACK. If the rest of a loan is torn, its bytes
 * are counted but their content is not valid. docs/design/local.md has the rules.
 */
#define LOCAL_LOANS 8u		    /* maximum number of loans at a time, per direction */
#define LOCAL_LEND_MIN (32u << 10)  /* smallest piece that is lent, in bytes */
#define LOCAL_LEND_MAX (1ull << 40) /* largest loan, in bytes */

enum local_loan_state {
	LOAN_NONE = 0,
	LOAN_OUT,     /* lent, and the consumer is not reading it */
	LOAN_READING, /* the consumer is reading */
	LOAN_BACK,    /* the producer took it back; the rest is torn */
	LOAN_FAILED,  /* the consumer could not read it; the rest is torn */
	LOAN_OVER,    /* the consumer has received or skipped it; the entry is free */
};

struct local_loan {
	_Atomic uint32_t state;
	_Atomic uint32_t error; /* errno of a failed loan; kept when the state becomes LOAN_OVER */
	_Atomic uint64_t addr, bytes, at; /* producer's address; length; ring cursor */
};

/* The loans of one producer: loan n is in entry n % LOCAL_LOANS. */
struct local_loans {
	alignas(LOCAL_LINE) _Atomic uint64_t head; /* number of loans that the producer has made */
	struct local_loan loan[LOCAL_LOANS];
};

#define LOCAL_SECRET_BYTES 16

/* What a side publishes if it wants to lend to another process. The other side reads the secret at
 * `addr`, which proves that it reads this side's memory. */
struct local_offer {
	_Atomic uint32_t ready; /* 1 if addr and secret are set */
	_Atomic uint32_t reads; /* 1 if this side can read the other side's memory */
	uint64_t addr;		/* address of the secret in this side's memory */
	uint8_t secret[LOCAL_SECRET_BYTES];
};

/* The beginning of the shared memory. The two rings follow at offset LOCAL_HEADER_BYTES. */
struct local_header {
	struct local_direction lane[2]; /* dialler to acceptor, acceptor to dialler */
	struct local_loans loans[2];	/* index: the producer's side (0: dialler, 1: acceptor) */
	struct local_offer offer[2];	/* the dialler's; the acceptor's */
	/* index: side; number of the other side's regions that the side reads */
	_Atomic uint32_t holds[2];
};

static_assert(sizeof(struct local_header) <= LOCAL_HEADER_BYTES, "header outgrew its place");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "cursors are shared between processes");

#endif
