/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher and the two ranks of the NCCL yardstick share. */
#ifndef BENCH_NCCL_P2P_H
#define BENCH_NCCL_P2P_H

#include <stdint.h>

#define P2P_SIZES 32
#define P2P_ABSENT 77 /* exit: no library, driver or second GPU; nothing was measured */

struct p2p_options {
	const char *nccl;  /* path of the library; NULL: the loader's */
	const char *label; /* of the setting; goes into each row */
	const char *modes; /* any of separate, grouped, single, pingpong */
	const char *logs;  /* folder of the ranks' NCCL logs */
	uint64_t sizes[P2P_SIZES];
	unsigned nsizes, reps, window, trips;
	uint64_t volume; /* bytes of a repetition */
	unsigned gpu[2];
	int gpus_given;
	unsigned timeout_s;
};

/* Rank 0 sends and prints, rank 1 receives and checks; fd leads to the other. Never returns. */
__attribute__((noreturn)) void p2p_rank(const struct p2p_options *options, int rank, int fd);

#endif
