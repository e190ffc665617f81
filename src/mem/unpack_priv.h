/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of an unpacker: launches under way, and the operations of each backend. */
#ifndef MEM_UNPACK_PRIV_H
#define MEM_UNPACK_PRIV_H

#include <stdatomic.h>

#include <tcpx/log.h>

#include "mem/unpack.h"

/* Lanes: launches alternate between them, one under way in each, so that one begins while the other
 * ends and the GPU never waits for the host. */
#define UNPACK_LANES 2
#define UNPACK_SLOTS 3	    /* one per lane, and one that is being filled */
#define UNPACK_WORD_GAP 64u /* bytes between the lanes' words */

/* A slot has a launch that is being filled or under way. */
struct unpack_slot {
	struct base_frag *pieces; /* room for MEM_UNPACK_PIECES; dst is an address */
	uint64_t pieces_at;	  /* address of pieces for the GPU */
	uint8_t *stage;		  /* mode HOST: stage_bytes of pinned memory */
	struct mem_unpack_job *first, **last;
	uint64_t src, bytes;
	uint32_t count;
};

struct unpack_backend {
	/*
	 * Puts the pieces of the slot, and after them the write of the launch's number, into the
	 * lane of that number (serial). On an error *out_put says whether a part of the launch is
	 * in the lane, so that its end must be awaited.
	 */
	tcpx_status (*launch)(struct mem_unpack *u, struct unpack_slot *slot, uint64_t serial,
			      int *out_put);
	/* Asks the lanes: IN_PROGRESS, OK (they are empty), or why a lane is broken, which breaks
	 * the unpacker. */
	tcpx_status (*ask)(struct mem_unpack *u);
	tcpx_status (*reach)(struct mem_unpack *u, uint32_t device);
	void (*close)(struct mem_unpack *u);
};

/* Numbers of launches ascend by one: launch n is in slot n % UNPACK_SLOTS and in lane
 * n % UNPACK_LANES. */
struct unpack_lane {
	_Atomic uint32_t *word; /* low bits of the number of the last launch that ended */
	uint64_t last, known;	/* number of the last launch; of the last one known to have ended */
};
struct mem_unpack {
	const struct unpack_backend *backend;
	struct unpack_cuda *cuda; /* of the CUDA backend; else NULL */
	struct mem_unpack_opts opts;
	struct unpack_slot slots[UNPACK_SLOTS];
	struct unpack_lane lanes[UNPACK_LANES];
	uint64_t launched;    /* number of the last launch */
	uint64_t stage_bytes; /* staging bytes of a slot; UINT64_MAX: not needed */
	int split;	      /* 1: a piece is at most one step of a warp long */
	int wordless;	      /* 1: words are not written, so the lanes are asked */
	tcpx_status broken;   /* not TCPX_OK: no more launches; error says why */
	int lost;	      /* 1: broken, and a lane reports it: jobs under way have ended */
	tcpx_error error;
	int64_t moved_ns; /* time when a launch ended, or the lanes were asked */
	uint32_t looks;
	struct mem_unpack_counts counts;
	uint16_t *order; /* 2 * MEM_UNPACK_PIECES, for sorting */
};

/* Breaks the unpacker: nothing is launched any more. The last error says why. loud: log it as
 * well. */
void mem_unpack_break(struct mem_unpack *u, int loud);

/* unpack_check.c: adds the pieces of the job to the slot, which has room for them; on an error adds
 * none. */
tcpx_status mem_unpack_add(struct mem_unpack *u, struct unpack_slot *slot,
			   const struct mem_unpack_job *job);

/* Places the words of the lanes in zeroed memory. */
static inline void unpack_words_at(struct mem_unpack *u, void *memory)
{
	for (int i = 0; i < UNPACK_LANES; i++)
		u->lanes[i].word = (_Atomic uint32_t *)((uint8_t *)memory + i * UNPACK_WORD_GAP);
}

/* Fills in backend, slots and words. On an error everything is released. */
tcpx_status mem_unpack_cuda_open(struct mem_unpack *u);
tcpx_status mem_unpack_cpu_open(struct mem_unpack *u);

#endif
