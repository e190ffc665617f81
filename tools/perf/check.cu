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
