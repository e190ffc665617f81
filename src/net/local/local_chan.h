/* SPDX-License-Identifier: Apache-2.0 */
/* A same-host channel, as one of its ends has it. */
#ifndef NET_LOCAL_LOCAL_CHAN_H
#define NET_LOCAL_LOCAL_CHAN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "net/local/local.h"
#include "net/local/local_shm.h"

struct local_map {
	uint8_t *base;
	size_t bytes;
	_Atomic int refs; /* references: 2 for a pair in one process */
};

/*
 * Blocks of memory that were received into lately. A buffer that is received into again within a
 * few MiB is in the cache and should stay there; others are written with non-temporal stores.
 */
#define LOCAL_HEAT_BLOCK (64u << 10)
#define LOCAL_HEAT_SLOTS 32u
#define LOCAL_AROUND_MIN (32u << 10)
struct local_heat {
	uintptr_t block[LOCAL_HEAT_SLOTS];
};

/* How a loan is read, see local_share.c. */
enum local_copy {
	COPY_RING,   /* no loans: two copies through the ring */
	COPY_DIRECT, /* memcpy: both ends are in this process */
	COPY_PEER,   /* process_vm_readv by the consumer, after it reported that it can read */
};

struct local_direct;

/* The private record of a loan at its producer; the fields in shared memory are untrusted. */
struct local_lent {
	uint64_t begin; /* position in the stream, in bytes */
	int home;	/* 1: the memory was returned to the producer */
};

/* The consumer's private copy of the loan that it reads, so that the producer cannot change it. */
struct local_borrowed {
	uint64_t addr, left; /* the producer's address of the next byte; bytes not read yet */
	uint64_t at;	     /* position of the loan in the stream */
	int known;	     /* 1: the fields above are valid */
	int torn;	     /* the rest is counted but not read */
};

enum local_role { LOCAL_RX, LOCAL_TX };

/* The doorbell, see local_bell.c. */
struct local_bell {
	_Atomic int armed[2]; /* per role: its owner may be asleep */
	_Atomic int owed;     /* the socket may have bells that were not read yet */
	atomic_flag draining;
};

/* For net_ops.info: the last observed progress of the peer. */
struct local_progress {
	_Atomic uint64_t moved; /* bytes and loans that the peer had finished */
	_Atomic int64_t ns;
};

/* State that only the owner of the sending direction accesses. */
struct local_tx {
	alignas(LOCAL_LINE) uint64_t head;
	uint64_t tail_seen, punched;
	unsigned full_count;
	/* Positions in the stream, in bytes. put: the end of what was passed to the transport;
	 * counted: the end of what calls have reported. */
	uint64_t put, counted;
	/* Numbers of loans. loan_head: loans made; loan_first: the first loan whose memory is not
	 * returned. */
	uint64_t loan_head, loan_first;
	struct local_lent lent[LOCAL_LOANS];
	int lent_failed; /* 1: a loan failed, which the next call reports */
	int put_failed;	 /* 1: the memory of the last piece put has vanished */
};

/* State that only the owner of the receiving direction accesses, except for mark. */
struct local_rx {
	alignas(LOCAL_LINE) uint64_t tail;
	uint64_t head_seen;
	_Atomic size_t mark;
	unsigned empty_count;
	struct local_heat heat;
	struct local_loans *borrow; /* NULL: loans of the peer are ignored */
	uint64_t loan_tail;
	struct local_borrowed loan;
	int torn;      /* 1: the bytes of the last recv are torn */
	int probe_due; /* COPY_PEER, 1: it is unknown yet whether the peer's memory can be read */
	uint64_t peer_addr;
	uint8_t peer_secret[LOCAL_SECRET_BYTES];
};

struct local_chan {
	struct net_chan base;
	int fd;
	size_t ring_bytes;
	struct local_map *map;
	struct local_lane *out, *in;
	uint8_t *out_ring, *in_ring;

	_Atomic int end;  /* a status: ended in both directions (PROTOCOL, DISCONNECTED) */
	_Atomic int gone; /* a status: the peer left; bytes that it sent before still count */

	struct local_bell bell;
	struct local_progress progress;

	/* Lending; set while the channel is made. */
	enum local_copy copy;
	int side;
	int pid;		     /* pid of the peer, according to the kernel */
	struct local_direct *direct; /* COPY_DIRECT: what both ends share */
	struct local_loans *lend_to; /* NULL: never lend */
	_Atomic uint32_t *lend_ok;   /* lend only if *lend_ok is not 0 */

	struct local_tx tx;
	struct local_rx rx;
};

#endif
