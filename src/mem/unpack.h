/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unpack engine: fragments that a plugin left in a bounce pool are moved to where they belong.
 *
 * An unpacker belongs to one thread at a time, which pushes jobs, flushes and tests; every worker
 * has its own for each GPU that it receives on, so nothing is locked and nobody is woken. What is
 * pushed and not yet launched goes with one launch. docs/design/unpack.md has the reasons.
 */
#ifndef MEM_UNPACK_H
#define MEM_UNPACK_H

#include <stddef.h>

#include <tcpx/types.h>

#include "mem/unpack_abi.h"

struct mem_unpack;

/* How bytes move. */
enum mem_unpack_mode {
	MEM_UNPACK_KERNEL, /* one kernel for all that was pushed */
	MEM_UNPACK_D2D,	   /* a device copy for each fragment */
	MEM_UNPACK_HOST,   /* through host memory: gathered, then written in as few copies as fit */
	MEM_UNPACK_CPU,	   /* by this thread, in flush: pool and destinations are host memory */
	MEM_UNPACK_NONE,   /* not at all: jobs are checked and end; what their destination holds is
			      not valid */
};

struct mem_unpack_opts {
	enum mem_unpack_mode mode;
	uint32_t device;    /* the GPU that may read the pool; not of CPU */
	uint64_t job_bytes; /* the most that a job expects, at most MEM_UNPACK_JOB_MAX; > 0 */
};

#define MEM_UNPACK_JOB_MAX (16ull << 20)

/* One message. The caller's until mem_unpack_test has said how it ended; he sets the first part. */
struct mem_unpack_job {
	const struct base_frag *frags; /* looked at in push alone */
	uint64_t nfrags; /* as the plugin tells it; at most MEM_UNPACK_FRAGS; 0 for 0 bytes */
	uint64_t src, src_bytes; /* the pool: an address of the GPU, a multiple of 16 */
	uint64_t dst, dst_bytes; /* what was posted: any alignment; the GPU reaches it */
	uint64_t expect;	 /* bytes of the message: what lengths add up to */

	/* out */
	int moved; /* 1: the bytes are in place; 0: not (mode NONE, or an error) */

	/* the unpacker's */
	int state;
	tcpx_status status;
	uint64_t serial;
	struct mem_unpack_job *next;
};

/*
 * ERR_INVALID (options), ERR_UNSUPPORTED (no driver; KERNEL: no kernel for this GPU, or its
 * driver does not compile PTX), ERR_NO_MEMORY, ERR_SYSTEM. Slow: it loads a module and pins memory.
 */
tcpx_status mem_unpack_open(const struct mem_unpack_opts *opts, struct mem_unpack **out_unpack);

/* No job is under way. May wait for whatever runs on the GPU: not from a thread that others wait
 * for. NULL is legal. */
void mem_unpack_close(struct mem_unpack *unpack);

/* Destinations may lie on that GPU from now on (relay: the kernel runs where the pool is). 0 ..;
 * its own is always there. ERR_UNSUPPORTED: no peer access. Slow. */
tcpx_status mem_unpack_reach(struct mem_unpack *unpack, uint32_t device);

/*
 * Checks every descriptor, then queues the job for the next launch; afterwards frags are not looked
 * at any more, so what was checked is what runs. Nothing is launched for a job that is refused:
 *   ERR_CORRUPT  a fragment leaves the pool or what was posted, two overlap at the destination, or
 *                lengths do not add up to expect: the plugin or the peer broke its contract
 *   ERR_LIMIT    more fragments or bytes than there may be
 *   ERR_INVALID  the caller's own arguments
 *   ERR_AGAIN    no room beside what is under way: again after a test of an older job
 *   ERR_SYSTEM   the GPU is of no more use
 */
tcpx_status mem_unpack_push(struct mem_unpack *unpack, struct mem_unpack_job *job);

/* Launches what was pushed, unless so much is under way already that it may as well grow: then a
 * later flush or test launches it. What fails is told by test. */
void mem_unpack_flush(struct mem_unpack *unpack);

/*
 * TCPX_IN_PROGRESS, or how the job ended; always the same from then on. TCPX_OK: the bytes are in
 * place for everybody who learns of it, and the pool's pages may be given back. An error
 * (ERR_SYSTEM, ERR_NO_MEMORY, with the cause as the last error): nothing of the job moves any more,
 * some of it may have. Cheap: one look at a word of host memory.
 */
tcpx_status mem_unpack_test(struct mem_unpack *unpack, struct mem_unpack_job *job);

/* Totals since open. */
struct mem_unpack_counts {
	uint64_t jobs, launches, bytes; /* pushed; launched; of what was pushed */
};
void mem_unpack_counts(const struct mem_unpack *unpack, struct mem_unpack_counts *out_counts);

/* What unpacking is, on host memory: the definition that everything else is compared with. The list
 * has been checked. */
void mem_unpack_frags(const struct base_frag *frags, uint32_t nfrags, const void *src, void *dst);

/* The reference of both kernels, on this thread. pieces: the launch's. at: where the CPU finds the
 * bytes at an address of args or of a piece; NULL: at that address. */
void mem_unpack_cpu(const struct mem_unpack_args *args, const struct base_frag *pieces,
		    void *(*at)(uint64_t addr, uint64_t bytes));

#endif
