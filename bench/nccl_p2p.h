/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher and the two ranks of the NCCL yardstick share. */
#ifndef BENCH_NCCL_P2P_H
#define BENCH_NCCL_P2P_H

#include <stdint.h>

#define P2P_SIZES 32
#define P2P_ABSENT 77 /* exit: no library, driver or second GPU; nothing was measured */

enum p2p_op { P2P_SENDRECV, P2P_ALL_REDUCE, P2P_ALL_TO_ALL };

struct p2p_options {
	const char *nccl;  /* path of the library; NULL: the loader's */
	const char *label; /* of the setting; goes into each row */
	const char *modes; /* any of separate, grouped, single, pingpong */
	const char *logs;  /* folder of the ranks' NCCL logs */
	uint64_t sizes[P2P_SIZES];
	unsigned nsizes, reps, window, trips;
	uint64_t volume; /* bytes of a repetition */
	unsigned gpu[2];
	int gpus_given, dry_run;
	enum p2p_op op;
	unsigned timeout_s;
};

static inline const char *p2p_op_name(enum p2p_op op)
{
	static const char *const names[] = {"sendrecv", "all-reduce", "all-to-all"};

	return names[op];
}

/* What nccl-tests multiplies by, so that other numbers of ranks compare. */
static inline double p2p_bus_factor(enum p2p_op op, unsigned ranks)
{
	double others = (double)(ranks - 1) / (double)ranks;

	return op == P2P_ALL_REDUCE ? 2 * others : op == P2P_ALL_TO_ALL ? others : 1;
}

/* Rank 0 sends and prints, rank 1 receives and checks; fd leads to the other. Never returns. */
__attribute__((noreturn)) void p2p_rank(const struct p2p_options *options, int rank, int fd);

#endif
