/* SPDX-License-Identifier: Apache-2.0 */
/* What the two ends of a same-host channel share: the layout of its memory. */
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
 * One direction. Each LOCAL_LINE is written by one side, except the wait words, which the other
 * side resets to 0 when it rings. Cursors count bytes since the beginning and never decrease.
 * Nothing here is trusted: a side keeps its own cursor in private memory and only publishes it.
 */
struct local_lane {
	alignas(LOCAL_LINE) _Atomic uint64_t head; /* the producer's cursor */
	_Atomic uint32_t head_wait;   /* the producer sleeps: ring when there is room */
	_Atomic uint32_t head_closed; /* the producer closed in an orderly way */
	alignas(LOCAL_LINE) _Atomic uint64_t tail; /* the consumer's cursor */
	_Atomic uint32_t tail_wait;   /* the consumer sleeps: ring at this many bytes */
	_Atomic uint32_t tail_closed; /* the consumer closed in an orderly way */
};

/*
 * A piece of the producer's memory that the consumer reads directly, instead of the same number of
 * bytes of the ring. Its place in the stream is the ring cursor "at": after all ring bytes before
 * it. The side that changes state from OUT by compare-and-swap gets the memory: the consumer with
 * READING, the producer with BACK. Bytes of a torn rest count, but their content is not valid.
 * docs/design/local.md has the rules.
 */
#define LOCAL_LOANS 8u		   /* most loans at a time, per direction */
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
	_Atomic uint32_t error; /* errno of LOAN_FAILED; kept in LOAN_OVER */
	_Atomic uint64_t addr, bytes, at;
};

struct local_loans {
	alignas(LOCAL_LINE) _Atomic uint64_t head; /* the producer's: number of loans made */
	struct local_loan loan[LOCAL_LOANS];
};

#define LOCAL_SECRET_BYTES 16

/* Published by a side that wants to lend to another process: where the reader finds the secret that
 * proves this side. */
struct local_offer {
	_Atomic uint32_t ready;
	_Atomic uint32_t reads; /* 1: this side can read the other's memory */
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

#endif
