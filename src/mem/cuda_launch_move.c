/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of pieces for the move kernel: a group of moves becomes one launch. */
#include "mem/cuda_launch.h"

#include "base/error.h"
#include "mem/move.h"

/* The pieces of a list while it is built. */
struct moves {
	struct mem_move_piece *pieces;
	uint32_t count;
	uint64_t src_end, dst_end; /* end of the last piece at the source and at the destination */
};

/* Adds a piece, or extends the last one if the new piece follows it on both sides. Returns 0 if the
 * list is full or the piece is too long for a launch. */
static int moves_add(struct moves *list, uint64_t src, uint64_t dst, uint64_t bytes)
{
	struct mem_move_piece *last = list->count ? &list->pieces[list->count - 1] : NULL;

	if (last && src == list->src_end && dst == list->dst_end &&
	    bytes <= MEM_MOVE_BYTES - last->length) {
		last->length += (uint32_t)bytes;
	} else {
		if (list->count == MEM_LAUNCH_PIECES || bytes > MEM_MOVE_BYTES)
			return 0;
		list->pieces[list->count++] =
			(struct mem_move_piece){.src = src, .dst = dst, .length = (uint32_t)bytes};
	}
	list->src_end = src + bytes;
	list->dst_end = dst + bytes;
	return 1;
}

/* Adds all pieces of a copy. Returns 0 if one of them cannot be added. */
static int moves_add_copy(struct moves *list, const struct mem_copy *copy)
{
	uint64_t slot = (uintptr_t)copy->slot, at = 0;

	for (uint32_t i = 0; i < copy->npieces; i++) {
		uint64_t bytes = copy->pieces[i].length;

		if (copy->sources)
			at = copy->sources[i];
		if (bytes && !moves_add(list, slot + at, (uintptr_t)copy->pieces[i].addr, bytes))
			return 0;
		at += bytes;
	}
	return 1;
}

/* Launches the move kernel. `args` already describes the pieces of `launch`. */
static enum mem_launch_result moves_launch(struct cuda_launcher *launcher,
					   struct cuda_launch *launch, struct mem_move_args *args)
{
	mem_launch_renew(launcher, launch);
	args->pieces = launch->pieces_at;
	args->mark = launch->mark_at;
	args->state = launcher->state;
	args->serial = launch->serial;
	if (mem_cuda_kernels_move(launcher->kernels, launcher->stream, args) != TCPX_OK) {
		mem_launch_failed();
		return MEM_LAUNCH_NONE;
	}
	launch->busy = 1;
	return MEM_LAUNCH_ALL;
}

enum mem_launch_result mem_launch_put_nothing(struct cuda_launcher *launcher,
					      struct cuda_launch *launch)
{
	struct mem_move_args args = {.blocks = 1};

	return moves_launch(launcher, launch, &args);
}

enum mem_launch_result mem_launch_put_moves(struct cuda_launcher *launcher,
					    struct cuda_launch *launch,
					    const struct mem_copy *first)
{
	struct moves list = {.pieces = launch->moves};
	struct mem_move_args args;

	for (const struct mem_copy *copy = first; copy; copy = copy->next)
		if (!moves_add_copy(&list, copy))
			return MEM_LAUNCH_NONE;
	if (!list.count ||
	    mem_move_plan(launch->moves, list.count, launcher->move_blocks, &args) != TCPX_OK)
		return MEM_LAUNCH_NONE;
	return moves_launch(launcher, launch, &args);
}
