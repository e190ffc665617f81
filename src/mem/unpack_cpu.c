/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking by the CPU: the reference implementations for the kernels, and the modes CPU and
 * NONE. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "mem/unpack_priv.h"

_Static_assert(sizeof(struct mem_unpack_args) == 48 &&
		       sizeof(struct mem_unpack_inline_args) == 48 + MEM_UNPACK_INLINE * 16 &&
		       sizeof(struct mem_unpack_inline_args) <= 4096,
	       "the CUDA compiler lays them out so, and a driver takes them");
_Static_assert(MEM_UNPACK_FRAGS + MEM_UNPACK_JOB_MAX / (MEM_UNPACK_WORDS * 16) <= MEM_UNPACK_PIECES,
	       "every job fits into a launch");

void mem_unpack_frags(const struct base_frag *frags, uint32_t nfrags, const void *src, void *dst)
{
	for (uint32_t i = 0; i < nfrags; i++)
		memcpy((uint8_t *)dst + frags[i].dst, (const uint8_t *)src + frags[i].src,
		       frags[i].len);
}

static void *unpack_same_address(uint64_t addr, uint64_t bytes)
{
	(void)bytes;
	return (void *)(uintptr_t)addr;
}

void mem_unpack_cpu(const struct mem_unpack_args *args, const struct base_frag *pieces,
		    void *(*at)(uint64_t addr, uint64_t bytes))
{
	_Atomic uint32_t *word;

	if (!at)
		at = unpack_same_address;
	for (uint32_t i = 0; i < args->count; i++)
		if (pieces[i].len)
			memcpy(at(pieces[i].dst, pieces[i].len),
			       at(args->src + pieces[i].src, pieces[i].len), pieces[i].len);
	word = at(args->word, sizeof(*word));
	atomic_store_explicit(word, args->serial, memory_order_release);
}

static tcpx_status cpu_launch(struct mem_unpack *u, struct unpack_slot *slot, uint64_t serial,
			      int *out_put)
{
	const struct mem_unpack_args args = {
		.src = slot->src,
		.word = (uintptr_t)u->lanes[serial % UNPACK_LANES].word,
		.serial = (uint32_t)serial,
		.count = u->opts.mode == MEM_UNPACK_NONE ? 0 : slot->count,
	};

	*out_put = 1;
	mem_unpack_cpu(&args, slot->pieces, NULL);
	return TCPX_OK;
}

static tcpx_status cpu_ask(struct mem_unpack *u)
{
	(void)u;
	return TCPX_OK;
}

static tcpx_status cpu_reach(struct mem_unpack *u, uint32_t device)
{
	if (u->opts.mode == MEM_UNPACK_NONE)
		return TCPX_OK;
	return error_set(TCPX_ERR_UNSUPPORTED, 0, "the CPU does not unpack to memory of GPU %u",
			 device);
}

/* Frees the allocation that holds the words and the pieces of all slots. */
static void cpu_close(struct mem_unpack *u)
{
	free((void *)u->lanes[0].word);
}

static const struct unpack_backend cpu_backend = {
	.launch = cpu_launch,
	.ask = cpu_ask,
	.reach = cpu_reach,
	.close = cpu_close,
};

tcpx_status mem_unpack_cpu_open(struct mem_unpack *u)
{
	const size_t pieces = MEM_UNPACK_PIECES * sizeof(struct base_frag);
	const size_t head = UNPACK_LANES * UNPACK_WORD_GAP;
	uint8_t *memory = calloc(1, head + UNPACK_SLOTS * pieces);

	if (!memory)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "lists of fragments");
	unpack_words_at(u, memory);
	for (size_t i = 0; i < UNPACK_SLOTS; i++)
		u->slots[i].pieces = (struct base_frag *)(memory + head + i * pieces);
	u->backend = &cpu_backend;
	return TCPX_OK;
}
