/* SPDX-License-Identifier: Apache-2.0 */
/* Fills and checks GPU memory with the tool's test data: the bytes of perf_pattern.c. */
#include "check_abi.h"

#define STEP 0x9e3779b97f4a7c15ull
#define POISON 0xdbdbdbdbdbdbdbdbull
#define WORD 16ull

static __device__ __forceinline__ uint64_t word_of(const struct gpu_check_args *a, uint64_t index)
{
	uint64_t x = a->key + index * STEP;

	return a->poison ? POISON : x ^ x >> 29;
}

/* The 16 bytes at any position. */
static __device__ __forceinline__ ulonglong2 pattern(const struct gpu_check_args *a, uint64_t pos)
{
	uint64_t low = word_of(a, pos / 8), high = word_of(a, pos / 8 + 1);
	uint32_t bits = (uint32_t)(pos % 8) * 8;

	if (bits) {
		uint64_t more = word_of(a, pos / 8 + 2);

		low = low >> bits | high << (64 - bits);
		high = high >> bits | more << (64 - bits);
	}
	return make_ulonglong2(low, high);
}

static __device__ __forceinline__ uint8_t pattern_byte(const struct gpu_check_args *a, uint64_t at)
{
	return (uint8_t)(word_of(a, (a->pos + at) / 8) >> (a->pos + at) % 8 * 8);
}

/* Aligned words that the buffer touches, and the words of this thread. */
struct range {
	uint64_t lead, words, first, stride;
};

static __device__ __forceinline__ struct range own(const struct gpu_check_args *a)
{
	struct range r;

	r.lead = a->buf % WORD;
	r.words = (r.lead + a->bytes + WORD - 1) / WORD;
	r.first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	r.stride = (uint64_t)gridDim.x * blockDim.x;
	return r;
}

/* The word's bytes in the buffer, as offsets: from .. upto - 1; whether these are all 16. */
static __device__ __forceinline__ bool bytes_of(const struct gpu_check_args *a,
						const struct range *r, uint64_t word,
						uint64_t *from, uint64_t *upto)
{
	uint64_t begin = word * WORD, end = begin + WORD, last = r->lead + a->bytes;

	*from = begin < r->lead ? 0 : begin - r->lead;
	*upto = (end < last ? end : last) - r->lead;
	return *upto - *from == WORD;
}

extern "C" __global__ void perf_fill(const __grid_constant__ struct gpu_check_args args)
{
	const struct gpu_check_args *a = &args;
	struct range r = own(a);
	uint64_t from, upto;

	for (uint64_t word = r.first; word < r.words; word += r.stride) {
		if (bytes_of(a, &r, word, &from, &upto)) {
			*(ulonglong2 *)(a->buf + from) = pattern(a, a->pos + from);
			continue;
		}
		for (; from < upto; from++)
			*(uint8_t *)(a->buf + from) = pattern_byte(a, from);
	}
}

/* Adds the bytes of x that are not 0; from: the offset of its lowest byte. */
static __device__ __forceinline__ void count(uint64_t x, uint64_t from, uint64_t *wrong,
					     uint64_t *first)
{
	for (uint32_t k = 0; x; k++, x >>= 8) {
		if (!(x & 0xff))
			continue;
		++*wrong;
		if (from + k < *first)
			*first = from + k;
	}
}

extern "C" __global__ void perf_check(const __grid_constant__ struct gpu_check_args args)
{
	const struct gpu_check_args *a = &args;
	struct gpu_check_result *result = (struct gpu_check_result *)a->result;
	struct range r = own(a);
	uint64_t from, upto, wrong = 0, first = ~0ull;

	for (uint64_t word = r.first; word < r.words; word += r.stride) {
		if (bytes_of(a, &r, word, &from, &upto)) {
			ulonglong2 have = *(const ulonglong2 *)(a->buf + from);
			ulonglong2 want = pattern(a, a->pos + from);

			count(have.x ^ want.x, from, &wrong, &first);
			count(have.y ^ want.y, from + 8, &wrong, &first);
			continue;
		}
		for (; from < upto; from++)
			count((uint64_t)(*(const uint8_t *)(a->buf + from) ^ pattern_byte(a, from)),
			      from, &wrong, &first);
	}
	if (wrong) {
		atomicAdd((unsigned long long *)&result->wrong, (unsigned long long)wrong);
		atomicMin((unsigned long long *)&result->first, (unsigned long long)first);
	}
}

/* Where in the source the byte at comes from; whether it comes from there at all. left: so many
 * bytes from at on lie in the same piece. */
static __device__ __forceinline__ bool source_of(const struct gpu_check_layout_args *l, uint64_t at,
						 uint64_t *pos, uint64_t *left)
{
	const uint32_t *dst_piece = (const uint32_t *)l->dst_piece;
	const uint32_t *src_slot = (const uint32_t *)l->src_slot;
	uint64_t slot = at / l->stride, off = at - slot * l->stride;
	uint32_t piece;

	*left = 0;
	if (slot >= l->slots || off >= l->piece)
		return false;
	*left = l->piece - off;
	piece = dst_piece ? dst_piece[slot] : (uint32_t)slot;
	*pos = (src_slot ? (uint64_t)src_slot[piece] : piece) * l->stride + off;
	return piece < l->with_data;
}

extern "C" __global__ void
perf_check_layout(const __grid_constant__ struct gpu_check_layout_args args)
{
	const struct gpu_check_layout_args *l = &args;
	struct gpu_check_args data = {l->buf, l->bytes, 0, l->key, l->result, 0, 0};
	struct gpu_check_result *result = (struct gpu_check_result *)l->result;
	uint64_t from, upto, pos, left, wrong = 0, first = ~0ull;
	struct range r = own(&data);

	for (uint64_t word = r.first; word < r.words; word += r.stride) {
		bool whole = bytes_of(&data, &r, word, &from, &upto);
		bool comes = source_of(l, from, &pos, &left);

		if (whole && left >= WORD) {
			ulonglong2 have = *(const ulonglong2 *)(l->buf + from);
			ulonglong2 want =
				comes ? pattern(&data, pos) : make_ulonglong2(POISON, POISON);

			count(have.x ^ want.x, from, &wrong, &first);
			count(have.y ^ want.y, from + 8, &wrong, &first);
			continue;
		}
		for (; from < upto; from++) {
			uint8_t want = source_of(l, from, &pos, &left) ? pattern_byte(&data, pos)
								       : (uint8_t)POISON;

			count((uint64_t)(*(const uint8_t *)(l->buf + from) ^ want), from, &wrong,
			      &first);
		}
	}
	if (wrong) {
		atomicAdd((unsigned long long *)&result->wrong, (unsigned long long)wrong);
		atomicMin((unsigned long long *)&result->first, (unsigned long long)first);
	}
}
