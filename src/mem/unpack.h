/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unpack engine: moves fragments that a plugin left in a bounce pool to their destination.
 *
 * An unpacker belongs to one thread at a time, which pushes jobs, flushes and tests; every worker
 * has its own for each GPU that it receives on, so there are no locks and no wake-ups. Jobs that
 * are pushed and not launched yet go with one launch. docs/design/unpack.md has the reasons.
 */
#ifndef MEM_UNPACK_H
#define MEM_UNPACK_H

#include <stddef.h>

#include <tcpx/types.h>

#include "mem/unpack_abi.h"

struct mem_unpack;

/* How the bytes of a message move from the pool to their destination. */
enum mem_unpack_mode {
	MEM_UNPACK_KERNEL, /* one kernel for all pushed jobs */
	MEM_UNPACK_D2D,	   /* a device copy for each fragment */
	MEM_UNPACK_HOST,   /* gathered in host memory, then written in as few copies as possible */
	MEM_UNPACK_CPU,	   /* the calling thread copies in flush; all memory is host memory */
	/* not at all: jobs are checked and end; the content of their destination is not valid */
	MEM_UNPACK_NONE,
};

struct mem_unpack_opts {
	enum mem_unpack_mode mode;
	uint32_t device;    /* the GPU that can read the pool; unused in mode CPU */
	uint64_t job_bytes; /* bytes of the largest job, 1 .. MEM_UNPACK_JOB_MAX */
};

#define MEM_UNPACK_JOB_MAX (16ull << 20)

/* One message of the plugin, to be unpacked. The caller keeps the struct until mem_unpack_test has
 * reported its end, and sets the fields up to expect. */
struct mem_unpack_job {
	const struct base_frag *frags; /* list of the plugin; read by mem_unpack_push only */
	uint64_t nfrags;	 /* number of fragments, at most MEM_UNPACK_FRAGS; 0 for 0 bytes */
	uint64_t src, src_bytes; /* the pool: a GPU address, a multiple of 16 */
	uint64_t dst, dst_bytes; /* the posted buffer: any alignment; accessible to the GPU */
	uint64_t expect;	 /* bytes of the message: the sum of all lengths */

	/* set by the unpacker */
	int moved; /* 1: the bytes are in place; 0: they are not (mode NONE, or an error) */

	/* for the unpacker only */
	int state;
	tcpx_status status;
	uint64_t serial;
	struct mem_unpack_job *next;
};

/*
 * Opens an unpacker. ERR_INVALID (options), ERR_UNSUPPORTED (no driver; mode KERNEL: no kernel for
 * this GPU, or its driver does not compile PTX), ERR_NO_MEMORY, ERR_SYSTEM. Slow: it loads a
 * module and pins memory.
 */
tcpx_status mem_unpack_open(const struct mem_unpack_opts *opts, struct mem_unpack **out_unpack);

/* Closes an unpacker that has no job under way. May wait for whatever runs on the GPU, so a thread
 * that others wait for must not call it. NULL is allowed. */
void mem_unpack_close(struct mem_unpack *unpack);

/* Allows destinations in memory of another GPU (relay: the kernel runs on the GPU that has the
 * pool). The unpacker's own GPU is always allowed. ERR_UNSUPPORTED: no peer access. Slow. */
tcpx_status mem_unpack_reach(struct mem_unpack *unpack, uint32_t device);

/*
 * Checks every descriptor, then queues the job for the next launch; frags are not read again, so
 * what was checked is what runs. Nothing is launched for a refused job:
 *   ERR_CORRUPT  a fragment exceeds the pool or the posted buffer, two overlap at the destination,
 *                or lengths do not add up to expect: the plugin or the peer broke its contract
 *   ERR_LIMIT    too many fragments or bytes
 *   ERR_INVALID  the caller's own arguments
 *   ERR_AGAIN    no room while other jobs are under way: try again after a test of one of them
 *   ERR_SYSTEM   the GPU is unusable
 */
tcpx_status mem_unpack_push(struct mem_unpack *unpack, struct mem_unpack_job *job);

/* Launches the pushed jobs, unless two launches are under way: then the jobs wait for a later
 * flush or test, and more jobs may join them. mem_unpack_test reports errors of the launch. */
void mem_unpack_flush(struct mem_unpack *unpack);

/*
 * TCPX_IN_PROGRESS, or how the job ended, which does not change any more. TCPX_OK: the bytes are
 * in place for every thread that learns of it, and the pages of the pool may be returned. On an
 * error (ERR_SYSTEM, ERR_NO_MEMORY, with the cause as the last error) nothing of the job moves any
 * more, but some of it may have moved. Cheap: one load of a word of host memory.
 */
tcpx_status mem_unpack_test(struct mem_unpack *unpack, struct mem_unpack_job *job);

/* Totals since mem_unpack_open. */
struct mem_unpack_counts {
	uint64_t jobs, launches, bytes; /* jobs pushed; launches; bytes of the jobs */
};
void mem_unpack_counts(const struct mem_unpack *unpack, struct mem_unpack_counts *out_counts);

/* Unpacks a list in host memory, one memcpy per fragment; all other implementations are compared
 * with this one. The list has been checked. */
void mem_unpack_frags(const struct base_frag *frags, uint32_t nfrags, const void *src, void *dst);

/* Unpacks the pieces of a launch on the calling thread as both kernels do: moves the bytes, then
 * stores args->serial to *args->word. at: maps an address of args or of a piece to a CPU address;
 * NULL: addresses are CPU addresses. */
void mem_unpack_cpu(const struct mem_unpack_args *args, const struct base_frag *pieces,
		    void *(*at)(uint64_t addr, uint64_t bytes));

#endif
