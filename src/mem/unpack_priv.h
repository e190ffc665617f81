/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of an unpacker: launches under way, and the operations of each backend. */
#ifndef MEM_UNPACK_PRIV_H
#define MEM_UNPACK_PRIV_H

#include <stdatomic.h>

#include <tcpx/log.h>

#include "mem/unpack.h"

/* Number of lanes. A lane is a stream of the GPU and a word that the stream writes. Launches
 * alternate between the lanes, with at most one under way in each. So one launch can begin while
 * the other ends, without a wait for the host in between. */
#define UNPACK_LANES 2
#define UNPACK_SLOTS 3	    /* one per lane, and one that is being filled */
#define UNPACK_WORD_GAP 64u /* bytes between the lanes' words */

/* The pieces and jobs of one launch, which is being filled or is under way. */
struct unpack_slot {
	struct base_frag *pieces; /* MEM_UNPACK_PIECES elements; `dst` of a piece is an address */
	uint64_t pieces_at;	  /* GPU address of `pieces` */
	/* mode HOST: pinned memory of stage_bytes, through which the bytes are copied */
	uint8_t *stage;
	struct mem_unpack_job *first, **last; /* the jobs, while the launch is being filled */
	uint64_t src, bytes;		      /* address of the bounce pool; bytes of the jobs */
	uint32_t count;			      /* number of pieces */
};

struct unpack_backend {
	/*
	 * Puts the pieces of the slot into the lane of launch number `serial`, and after them the
	 * write of that number. On an error *out_put says whether a part of the launch is in the
	 * lane, so that its end must be awaited.
	 */
	tcpx_status (*launch)(struct mem_unpack *u, struct unpack_slot *slot, uint64_t serial,
			      int *out_put);
	/* Returns TCPX_IN_PROGRESS if a launch is under way, OK if all lanes are empty, or the
	 * error of a lane, which breaks the unpacker. */
	tcpx_status (*ask)(struct mem_unpack *u);
	/* See mem_unpack_reach and mem_unpack_close. */
	tcpx_status (*reach)(struct mem_unpack *u, uint32_t device);
	void (*close)(struct mem_unpack *u);
};

/* A lane has one launch under way at most. Numbers of launches ascend by one: launch n is in slot
 * n % UNPACK_SLOTS and in lane n % UNPACK_LANES. */
struct unpack_lane {
	_Atomic uint32_t *word; /* low 32 bits of the number of the last launch that ended */
	/* number of the last launch in this lane; number of the last launch known to have ended */
	uint64_t last, known;
};
struct mem_unpack {
	const struct unpack_backend *backend;
	struct unpack_cuda *cuda; /* for the CUDA backend; NULL for the CPU */
	struct mem_unpack_opts opts;
	struct unpack_slot slots[UNPACK_SLOTS];
	struct unpack_lane lanes[UNPACK_LANES];
	uint64_t launched;    /* number of the last launch */
	uint64_t stage_bytes; /* bytes of a slot's stage; UINT64_MAX in modes other than HOST */
	int split;	      /* whether fragments are split into pieces of one step of a warp */
	/* whether the words are not written; the driver is then asked whether launches have
	 * ended */
	int wordless;
	/* if not TCPX_OK, nothing is launched any more; `error` has the reason */
	tcpx_status broken;
	/* whether a lane has reported an error after the unpacker broke; jobs under way then end */
	int lost;
	tcpx_error error;
	/* when unpack_ask read the clock for the first time after a word changed, or last asked the
	 * lanes because of ASK_NS; 0: not read since a word changed */
	int64_t moved_ns;
	uint32_t looks; /* calls of unpack_ask, except those that ask the lanes in any case */
	struct mem_unpack_counts counts;
	uint16_t *order; /* 2 * MEM_UNPACK_PIECES indices, used for sorting */
};

/* Breaks the unpacker with the last error: nothing is launched any more. Logs the error if `loud`
 * is set. */
void mem_unpack_break(struct mem_unpack *u, int loud);

/* Defined in unpack_check.c. Checks the job's descriptors and adds the job's pieces to the slot,
 * which must have room for them. Returns ERR_CORRUPT if the descriptors are not valid (see
 * mem_unpack_push), and adds nothing then. */
tcpx_status mem_unpack_add(struct mem_unpack *u, struct unpack_slot *slot,
			   const struct mem_unpack_job *job);

/* Sets the address of each lane's word in `memory`, which the caller must have zeroed. */
static inline void unpack_words_at(struct mem_unpack *u, void *memory)
{
	for (int i = 0; i < UNPACK_LANES; i++)
		u->lanes[i].word = (_Atomic uint32_t *)((uint8_t *)memory + i * UNPACK_WORD_GAP);
}

/* Fill in the backend, pieces and words of an unpacker. On an error they release everything that
 * they acquired. */
tcpx_status mem_unpack_cuda_open(struct mem_unpack *u);
tcpx_status mem_unpack_cpu_open(struct mem_unpack *u);

#endif
