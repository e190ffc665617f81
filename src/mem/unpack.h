/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unpack engine: copies fragments that a plugin left in a bounce pool to their destination.
 *
 * One thread at a time uses an unpacker: it pushes jobs (here: messages to unpack), flushes and
 * tests. Each receiving comm has its own unpacker, so no locks and no wake-ups are needed. Jobs
 * that are pushed but not launched yet go with one launch. docs/design/unpack.md has the reasons.
 */
#ifndef MEM_UNPACK_H
#define MEM_UNPACK_H

#include <stddef.h>

#include <tcpx/types.h>

#include "mem/unpack_abi.h"

struct mem_unpack;

/* How the bytes of a message move from the plugin's bounce pages to their destination. */
enum mem_unpack_mode {
	MEM_UNPACK_KERNEL, /* one kernel for all pushed jobs */
	MEM_UNPACK_D2D,	   /* a device copy for each fragment */
	MEM_UNPACK_HOST,   /* gathers in host memory, then writes in as few copies as possible */
	/* the calling thread copies in mem_unpack_flush; all memory is host memory */
	MEM_UNPACK_CPU,
	/* copies nothing: jobs are checked and end, but their destination has no valid content */
	MEM_UNPACK_NONE,
};

struct mem_unpack_opts {
	enum mem_unpack_mode mode;
	uint32_t device;    /* GPU that can read the bounce pool; unused in modes CPU and NONE */
	uint64_t job_bytes; /* bytes of the largest job, 1 .. MEM_UNPACK_JOB_MAX */
};

#define MEM_UNPACK_JOB_MAX (16ull << 20)

/* One message of the plugin that has to be unpacked. The caller sets the fields up to `expect`, and
 * keeps the struct until mem_unpack_test has reported the job's end. */
struct mem_unpack_job {
	const struct base_frag *frags; /* the plugin's list; only mem_unpack_push reads it */
	uint64_t nfrags;	       /* number of fragments, 0 .. MEM_UNPACK_FRAGS */
	uint64_t src, src_bytes;       /* bounce pool: GPU address, a multiple of 16; length */
	/* destination: address, accessible to the GPU, any alignment; length */
	uint64_t dst, dst_bytes;
	uint64_t expect; /* bytes of the message: the sum of all lengths */

	/* The following field is set by the unpacker. */
	int moved; /* whether the bytes are in place; 0 in mode NONE and after an error */

	/* The following fields are for the unpacker only. */
	int state;
	tcpx_status status;
	uint64_t serial;
	struct mem_unpack_job *next;
};

/*
 * Opens an unpacker. Returns ERR_INVALID (options), ERR_UNSUPPORTED (no driver; in mode KERNEL also
 * no kernel for this GPU, or a driver that does not compile PTX), ERR_NO_MEMORY or ERR_SYSTEM.
 * Slow: it loads a module and pins memory.
 */
tcpx_status mem_unpack_open(const struct mem_unpack_opts *opts, struct mem_unpack **out_unpack);

/* Closes an unpacker that has no job under way. May wait for any work that runs on the GPU, so a
 * thread for which others wait must not call it. `unpack` may be NULL. */
void mem_unpack_close(struct mem_unpack *unpack);

/* Allows destinations in memory of another GPU; the kernel still runs on the unpacker's own GPU, in
 * whose memory the bounce pool is. Destinations in this GPU's memory are always allowed. Returns
 * ERR_UNSUPPORTED if the unpacker's GPU cannot access the other GPU's memory, and in mode CPU.
 * Does nothing in mode NONE. Slow. */
tcpx_status mem_unpack_reach(struct mem_unpack *unpack, uint32_t device);

/*
 * Checks every fragment, then queues the job for the next launch. `frags` is not read again, so
 * what was checked is what is copied. A job that is refused is not launched:
 *   ERR_CORRUPT  a fragment exceeds the pool or the posted buffer, two overlap at the destination,
 *                or the lengths do not add up to `expect`: the plugin or the peer is at fault
 *   ERR_LIMIT    too many fragments or bytes
 *   ERR_INVALID  a wrong argument of the caller
 *   ERR_AGAIN    no room while other jobs are under way: try again after a test of one of them
 *   ERR_SYSTEM   the GPU is unusable
 */
tcpx_status mem_unpack_push(struct mem_unpack *unpack, struct mem_unpack_job *job);

/* Launches the pushed jobs. Launches use two lanes (streams) in turn, with at most one launch under
 * way in each. If the next lane is still busy, launches nothing: the jobs wait for a later flush or
 * test, and more may join. mem_unpack_test reports errors of the launch. */
void mem_unpack_flush(struct mem_unpack *unpack);

/*
 * Returns TCPX_IN_PROGRESS, or the final status of the job. After TCPX_OK the bytes are in place
 * (unless the mode is NONE) for every thread that learns of it, and the pages of the pool may be
 * returned. After an error (ERR_SYSTEM or ERR_NO_MEMORY; the last error has the cause) no more
 * bytes of the job move, but some may have moved. A job that is still queued is flushed first.
 * Otherwise the call is cheap: it nearly always only loads a word of host memory.
 */
tcpx_status mem_unpack_test(struct mem_unpack *unpack, struct mem_unpack_job *job);

/* Totals since mem_unpack_open. */
struct mem_unpack_counts {
	uint64_t jobs, launches, bytes; /* jobs pushed; launches; bytes of the jobs */
};
void mem_unpack_counts(const struct mem_unpack *unpack, struct mem_unpack_counts *out_counts);

/* Unpacks a list of fragments in host memory, with one memcpy per fragment. It is the reference
 * with which tests compare the other implementations. The list must have been checked. */
void mem_unpack_frags(const struct base_frag *frags, uint32_t nfrags, const void *src, void *dst);

/* Unpacks the pieces of a launch on the calling thread like both kernels: moves the bytes, then
 * stores args->serial to *args->word. `at` maps an address of `args` or of a piece to a CPU
 * address; if `at` is NULL, the addresses are CPU addresses. */
void mem_unpack_cpu(const struct mem_unpack_args *args, const struct base_frag *pieces,
		    void *(*at)(uint64_t addr, uint64_t bytes));

#endif
