/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of an unpacker: launches under way, and the operations of each backend. */
#ifndef MEM_UNPACK_PRIV_H
#define MEM_UNPACK_PRIV_H

#include <stdatomic.h>

#include <tcpx/log.h>

#include "mem/unpack.h"

/* Number of lanes (a stream of the GPU and a word each). Launches alternate between them, one
 * under way in each, so that one begins while the other ends and the GPU never waits for the
 * host. */
#define UNPACK_LANES 2
#define UNPACK_SLOTS 3	    /* one per lane, and one that is being filled */
#define UNPACK_WORD_GAP 64u /* bytes between the lanes' words */

/* The pieces and jobs of one launch, which is being filled or under way. */
struct unpack_slot {
	struct base_frag *pieces; /* array of MEM_UNPACK_PIECES; dst of a piece is an address */
	uint64_t pieces_at;	  /* address of pieces for the GPU */
	/* mode HOST: stage_bytes of pinned memory, through which the bytes travel */
	uint8_t *stage;
	struct mem_unpack_job *first, **last; /* the jobs while the launch is being filled */
	uint64_t src, bytes;		      /* address of the pool; bytes of the jobs */
	uint32_t count;			      /* number of pieces */
};

struct unpack_backend {
	/*
	 * Puts the pieces of the slot, and after them the write of the launch's number, into the
	 * lane of that number (serial). On an error *out_put says whether a part of the launch is
	 * in the lane, so that its end must be awaited.
	 */
	tcpx_status (*launch)(struct mem_unpack *u, struct unpack_slot *slot, uint64_t serial,
			      int *out_put);
	/* Asks whether launches are under way: TCPX_IN_PROGRESS: yes; OK: all lanes are empty;
	 * else the error of a lane, which breaks the unpacker. */
	tcpx_status (*ask)(struct mem_unpack *u);
	/* See mem_unpack_reach and mem_unpack_close. */
	tcpx_status (*reach)(struct mem_unpack *u, uint32_t device);
	void (*close)(struct mem_unpack *u);
};

/* A lane has one launch under way at most. Numbers of launches ascend by one: launch n is in slot
 * n % UNPACK_SLOTS and in lane n % UNPACK_LANES. */
struct unpack_lane {
	_Atomic uint32_t *word; /* low 32 bits of the number of the last launch that ended */
	/* number of the last launch in this lane; number of the last one known to have ended */
	uint64_t last, known;
};
struct mem_unpack {
	const struct unpack_backend *backend;
	struct unpack_cuda *cuda; /* of the CUDA backend; else NULL */
	struct mem_unpack_opts opts;
	struct unpack_slot slots[UNPACK_SLOTS];
	struct unpack_lane lanes[UNPACK_LANES];
	uint64_t launched;    /* number of the last launch */
	uint64_t stage_bytes; /* bytes of a slot's stage; UINT64_MAX: mode HOST is not used */
	int split;	      /* 1: fragments are split into pieces of one step of a warp */
	/* 1: the words are not written, so the driver is asked for the end of launches */
	int wordless;
	tcpx_status broken; /* not TCPX_OK: no more launches; error has the reason */
	/* 1: broken, and a lane has confirmed it: jobs under way have ended */
	int lost;
	tcpx_error error;
	/* since when no word has changed, or when the lanes were asked; 0: not noted yet */
	int64_t moved_ns;
	uint32_t looks; /* calls of unpack_ask so far */
	struct mem_unpack_counts counts;
	uint16_t *order; /* 2 * MEM_UNPACK_PIECES indices, for sorting */
};

/* Breaks the unpacker with the last error: nothing is launched any more. loud: logs the error. */
void mem_unpack_break(struct mem_unpack *u, int loud);

/* Defined in unpack_check.c: checks the descriptors of the job and adds its pieces to the slot,
 * which has room for them. ERR_CORRUPT: a descriptor is not valid, and nothing was added. */
tcpx_status mem_unpack_add(struct mem_unpack *u, struct unpack_slot *slot,
			   const struct mem_unpack_job *job);

/* Sets the word of each lane to its place in memory, which the caller has zeroed. */
static inline void unpack_words_at(struct mem_unpack *u, void *memory)
{
	for (int i = 0; i < UNPACK_LANES; i++)
		u->lanes[i].word = (_Atomic uint32_t *)((uint8_t *)memory + i * UNPACK_WORD_GAP);
}

/* Fill in backend, pieces and words of an unpacker. On an error they release everything. */
tcpx_status mem_unpack_cuda_open(struct mem_unpack *u);
tcpx_status mem_unpack_cpu_open(struct mem_unpack *u);

#endif
