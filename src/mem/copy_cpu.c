/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the copy kernels: divides a list among blocks, and copies a list on the CPU
 * (reference implementation). */
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "mem/copy.h"

/*
 * The most blocks that mem_copy_plan chooses if its argument `blocks` is 0. Each block occupies a
 * part of an SM that the application could use. On an H200, 4 blocks gather and 16 blocks scatter
 * at the full rate of the bus, 48 GB/s; more blocks are not faster (docs/design/gpu.md). Up to this
 * limit the launch gets one block per BLOCK_BYTES of the slot or per BLOCK_PIECES pieces, whichever
 * gives more blocks.
 */
#define BLOCKS_ENOUGH 16
#define BLOCK_BYTES 16384
#define BLOCK_PIECES 64
#define LINE 128u
/* largest slot offset at which a piece may end; sums of positions must fit into 32 bits */
#define END_MOST (1u << 30)

_Static_assert(sizeof(struct mem_copy_mark) == 12 && sizeof(struct mem_copy_piece) == 24 &&
		       sizeof(struct mem_copy_state) == 8,
	       "the CUDA compiler lays them out so");
_Static_assert(offsetof(struct mem_copy_args, slot) == 32 &&
		       offsetof(struct mem_copy_args, first) == 56,
	       "no padding that the two compilers may see differently");
_Static_assert(MEM_COPY_PIECES <= UINT16_MAX, "an index fits into first");

static tcpx_status check_list(const struct mem_copy_piece *pieces, uint32_t count)
{
	uint64_t end = 0;

	if (!count || count > MEM_COPY_PIECES)
		return error_set(TCPX_ERR_INVALID, 0, "a copy of %u pieces, not 1 .. %u", count,
				 MEM_COPY_PIECES);
	for (uint32_t i = 0; i < count; i++) {
		const struct mem_copy_piece *p = &pieces[i];

		if (!p->length || p->slot_off < end || p->slot_off >= END_MOST ||
		    p->length > END_MOST - p->slot_off)
			return error_set(TCPX_ERR_INVALID, 0,
					 "piece %u of a copy: %" PRIu64
					 " bytes at slot offset %" PRIu64 ", not from %" PRIu64
					 " on",
					 i, p->length, p->slot_off, end);
		end = p->slot_off + p->length;
	}
	return TCPX_OK;
}

static uint32_t blocks_worth(uint32_t span, uint32_t count)
{
	uint32_t by_bytes = (span + BLOCK_BYTES - 1) / BLOCK_BYTES;
	uint32_t by_count = (count + BLOCK_PIECES - 1) / BLOCK_PIECES;
	uint32_t worth = by_bytes > by_count ? by_bytes : by_count;

	return worth < BLOCKS_ENOUGH ? worth : BLOCKS_ENOUGH;
}

tcpx_status mem_copy_plan(const struct mem_copy_piece *pieces, uint32_t count, uint64_t slot,
			  uint32_t blocks, struct mem_copy_args *args)
{
	uint32_t lead = (uint32_t)(slot % LINE), span, piece = 0;
	tcpx_status status = check_list(pieces, count);

	if (status != TCPX_OK)
		return status;
	args->count = count;
	args->slot = slot;
	args->begin = (lead + (uint32_t)pieces[0].slot_off) & ~(LINE - 1);
	args->end = lead + (uint32_t)(pieces[count - 1].slot_off + pieces[count - 1].length);
	span = args->end - args->begin;
	if (!blocks)
		blocks = blocks_worth(span, count);
	if (blocks > MEM_COPY_BLOCKS)
		blocks = MEM_COPY_BLOCKS;
	args->share = ((span + blocks - 1) / blocks + LINE - 1) & ~(LINE - 1);
	args->blocks = (span + args->share - 1) / args->share;
	for (uint32_t b = 0; b < args->blocks; b++) {
		uint64_t from = args->begin + (uint64_t)b * args->share;

		/* The loop ends at the last piece at the latest: `from` is less than args->end,
		 * the end of the last piece. */
		while (lead + pieces[piece].slot_off + pieces[piece].length <= from)
			piece++;
		args->first[b] = (uint16_t)piece;
	}
	for (uint32_t b = args->blocks; b <= MEM_COPY_BLOCKS; b++)
		args->first[b] = (uint16_t)count;
	return TCPX_OK;
}

void *mem_copy_same_address(uint64_t addr, uint64_t bytes)
{
	(void)bytes;
	return (void *)(uintptr_t)addr;
}

int mem_copy_stopped(struct mem_copy_mark *mark, struct mem_copy_state *state, uint32_t serial)
{
	uint32_t verdict;

	if (atomic_exchange(&state->claimed, serial) != serial) {
		atomic_store(&mark->started, serial);
		verdict = serial | (atomic_load(&mark->abort) ? MEM_COPY_STOP : 0);
		if (verdict & MEM_COPY_STOP)
			atomic_store_explicit(&mark->stopped, 1, memory_order_relaxed);
		atomic_store_explicit(&state->verdict, verdict, memory_order_release);
		return verdict & MEM_COPY_STOP;
	}
	while ((verdict = atomic_load_explicit(&state->verdict, memory_order_acquire),
		(verdict & ~MEM_COPY_STOP) != serial))
		sched_yield();
	return verdict & MEM_COPY_STOP;
}

void mem_copy_cpu(const struct mem_copy_args *args, int to_slot,
		  void *(*at)(uint64_t addr, uint64_t bytes))
{
	const struct mem_copy_piece *pieces;
	struct mem_copy_state *state;
	struct mem_copy_mark *mark;

	if (!at)
		at = mem_copy_same_address;
	pieces = at(args->pieces, args->count * sizeof(*pieces));
	mark = at(args->mark, sizeof(*mark));
	state = at(args->state, sizeof(*state));
	if (mem_copy_stopped(mark, state, args->serial))
		return;
	for (uint32_t i = 0; i < args->count; i++) {
		uint8_t *slot = at(args->slot + pieces[i].slot_off, pieces[i].length);
		uint8_t *piece = at(pieces[i].addr, pieces[i].length);

		memcpy(to_slot ? slot : piece, to_slot ? piece : slot, pieces[i].length);
	}
}
