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
	_Atomic int refs; /* number of channels that use it: 1, or 2 if local_pair made both ends */
};

/*
 * Remembers the blocks of memory that were received into last, one for each index below. They count
 * as cached and are written with ordinary stores. Large copies into other blocks use non-temporal
 * stores (local_copy.c).
 */
#define LOCAL_HEAT_BLOCK (64u << 10)
#define LOCAL_HEAT_SLOTS 32u
#define LOCAL_AROUND_MIN (32u << 10) /* smallest copy with non-temporal stores, in bytes */
struct local_heat {
	/* A block's number is its address / LOCAL_HEAT_BLOCK. It is stored at the index (number %
	 * LOCAL_HEAT_SLOTS). */
	uintptr_t block[LOCAL_HEAT_SLOTS];
};

/* How the consumer reads loans (local_share.c). */
enum local_copy {
	COPY_RING,   /* nothing is lent: bytes are copied into the ring and out of it */
	COPY_DIRECT, /* memcpy from the producer's memory: both ends are in this process */
	COPY_PEER,   /* process_vm_readv, once the consumer has reported that it can read */
};

struct local_direct;

/* The producer's private record of a loan. The loan's fields in shared memory are untrusted. */
struct local_lent {
	uint64_t begin; /* position of the loan's first byte in the stream */
	int home;	/* 1 if the consumer no longer reads the loan's memory */
};

/* The consumer's private copy of the fields of the loan that it reads. The producer cannot change
 * the copy. */
struct local_borrowed {
	uint64_t addr, left; /* producer's address of the next byte; bytes left */
	uint64_t at;	     /* value of rx.tail when the loan's bytes are next */
	int known;	     /* 1 if the fields above are valid */
	int torn;	     /* 1 if the rest of the loan is counted as received but not read */
};

enum local_role { LOCAL_RX, LOCAL_TX };

/* This side's state of the doorbell (local_bell.c). */
struct local_bell {
	_Atomic int armed[2]; /* by role: 1 if the thread that owns the role may be asleep */
	_Atomic int owed;     /* 1 if the socket may contain bells that were not read yet */
	atomic_flag draining; /* set while a thread reads bells */
};

/* When the peer last made progress, for net_ops.info. */
struct local_progress {
	_Atomic uint64_t moved; /* bytes and loans that the peer had finished at the time `ns` */
	_Atomic int64_t ns;
};

/* State of the sending direction. Only the owner of that direction accesses it; after the channel
 * was stopped, the caller of local_lent() does. */
struct local_tx {
	alignas(LOCAL_LINE) uint64_t head;
	/* value of the peer's tail when last read; value of `head` when the ring's pages were last
	 * returned to the system */
	uint64_t tail_seen, punched;
	unsigned full_count; /* calls without progress, counted by tx_blocked() */
	/* Positions in the stream, in bytes. `put` is the end of the bytes that were copied into
	 * the ring or lent; `counted` is the end of the bytes that calls have reported as sent. */
	uint64_t put, counted;
	/* Loan numbers, counted from 0. `loan_head` is the number of the next loan to make;
	 * `loan_first` is that of the oldest loan that the consumer may still read. */
	uint64_t loan_head, loan_first;
	struct local_lent lent[LOCAL_LOANS];
	int lent_failed; /* 1 if a loan has failed and the next send or lend must report it */
	int put_failed;	 /* 1 if the last copy into the ring could not read the caller's memory */
};

/* State of the receiving direction. Only the owner of that direction accesses it. */
struct local_rx {
	alignas(LOCAL_LINE) uint64_t tail;
	uint64_t head_seen;   /* value of the peer's head when last read */
	_Atomic size_t mark;  /* number of readable bytes at which this side is woken */
	unsigned empty_count; /* calls without progress, counted by rx_empty() */
	struct local_heat heat;
	struct local_loans *borrow; /* the peer's loans; NULL while this side does not read loans */
	uint64_t loan_tail;	    /* number of the next loan to read */
	struct local_borrowed loan;
	int torn; /* 1 if the content of the bytes that the last recv returned is not valid */
	/* COPY_PEER only: 1 until this side has checked whether it can read the peer's memory. */
	int probe_due;
	uint64_t peer_addr; /* address of the peer's secret in the peer's memory */
	uint8_t peer_secret[LOCAL_SECRET_BYTES];
};

struct local_chan {
	struct net_chan base;
	int fd; /* the unix socket */
	size_t ring_bytes;
	struct local_map *map;
	struct local_direction *out, *in;
	uint8_t *out_ring, *in_ring;

	/* Status with which this side ended both directions (PROTOCOL, PEER_RESET or DISCONNECTED);
	 * 0 until then. */
	_Atomic int end;
	/* Status that says how the peer closed the channel; 0 until then. Bytes that the peer sent
	 * before are still received. */
	_Atomic int gone;

	struct local_bell bell;
	struct local_progress progress;

	/* Set when the channel is made. `copy` says how this end lends and reads loans. */
	enum local_copy copy;
	int side;		     /* 0 for the dialler, 1 for the acceptor */
	int pid;		     /* the peer's pid according to the kernel; 0 if not known */
	struct local_direct *direct; /* COPY_DIRECT: the loans of both directions */
	struct local_loans *lend_to; /* this side's loans; NULL if this side never lends */
	_Atomic uint32_t *lend_ok;   /* this side lends only while *lend_ok is not 0 */

	struct local_tx tx;
	struct local_rx rx;
};

#endif
