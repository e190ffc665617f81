/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the move kernel: divides a list of pieces among blocks, and copies a list on the
 * CPU (reference implementation). */
#include "mem/move.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "mem/copy.h"

_Static_assert(sizeof(struct mem_move_piece) == 24, "the CUDA compiler lays it out so");
_Static_assert(offsetof(struct mem_move_args, units) == 32 &&
		       offsetof(struct mem_move_args, first) == 44,
	       "no padding that the two compilers may see differently");
_Static_assert(MEM_MOVE_PIECES <= UINT16_MAX, "an index fits into first");

/* Sets `unit` of each piece. Returns the number of units of all pieces, or 0 if the list is not
 * valid. */
static uint32_t count_units(struct mem_move_piece *pieces, uint32_t count)
{
	uint64_t bytes = 0;
	uint32_t units = 0;

	for (uint32_t i = 0; i < count; i++) {
		bytes += pieces[i].length;
		if (!pieces[i].length || bytes > MEM_MOVE_BYTES) {
			error_set(TCPX_ERR_INVALID, 0,
				  "piece %u of a move: %u bytes, %" PRIu64 " with those before it",
				  i, pieces[i].length, bytes);
			return 0;
		}
		pieces[i].unit = units;
		units += mem_move_units(pieces[i].dst, pieces[i].length);
	}
	return units;
}

tcpx_status mem_move_plan(struct mem_move_piece *pieces, uint32_t count, uint32_t blocks,
			  struct mem_move_args *args)
{
	uint32_t worth, piece = 0;

	if (!count || count > MEM_MOVE_PIECES || !blocks || blocks > MEM_MOVE_BLOCKS)
		return error_set(TCPX_ERR_INVALID, 0,
				 "a move of %u pieces by %u blocks, not 1 .. %u by 1 .. %u", count,
				 blocks, MEM_MOVE_PIECES, MEM_MOVE_BLOCKS);
	args->units = count_units(pieces, count);
	if (!args->units)
		return TCPX_ERR_INVALID;
	worth = (args->units + MEM_MOVE_WARPS - 1) / MEM_MOVE_WARPS;
	if (blocks > worth)
		blocks = worth;
	args->count = count;
	args->share = (args->units + blocks - 1) / blocks;
	args->blocks = (args->units + args->share - 1) / args->share;
	for (uint32_t b = 0; b < args->blocks; b++) {
		while (piece + 1 < count && pieces[piece + 1].unit <= b * args->share)
			piece++;
		args->first[b] = (uint16_t)piece;
	}
	for (uint32_t b = args->blocks; b <= MEM_MOVE_BLOCKS; b++)
		args->first[b] = (uint16_t)count;
	return TCPX_OK;
}

/* Copies the units of one block, as the kernel mem_move does. */
static void block_cpu(const struct mem_move_args *args, const struct mem_move_piece *pieces,
		      uint32_t block, void *(*at)(uint64_t addr, uint64_t bytes))
{
	uint32_t pos = block * args->share, i = args->first[block];
	uint32_t last = args->units - pos < args->share ? args->units : pos + args->share;

	for (; pos < last; pos++) {
		const struct mem_move_piece *p;
		uint32_t lead, from, upto;

		while (i + 1 < args->count && pieces[i + 1].unit <= pos)
			i++;
		p = &pieces[i];
		lead = (uint32_t)(p->dst % 16);
		from = (pos - p->unit) * MEM_MOVE_UNIT;
		upto = from + MEM_MOVE_UNIT - lead;
		from = from ? from - lead : 0;
		upto = upto < p->length ? upto : p->length;
		memcpy(at(p->dst + from, upto - from), at(p->src + from, upto - from), upto - from);
	}
}

void mem_move_cpu(const struct mem_move_args *args, void *(*at)(uint64_t addr, uint64_t bytes))
{
	const struct mem_move_piece *pieces;

	if (!at)
		at = mem_copy_same_address;
	pieces = at(args->pieces, args->count * sizeof(*pieces));
	if (mem_copy_stopped(at(args->mark, sizeof(struct mem_copy_mark)),
			     at(args->state, sizeof(struct mem_copy_state)), args->serial))
		return;
	for (uint32_t b = 0; b < args->blocks; b++)
		block_cpu(args, pieces, b, at);
}
