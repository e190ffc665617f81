/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of fragments as a plugin may write them: whatever is said to be good moves its own bytes
 * and no others, all of them; whatever is not moves none. Pool and memory are of exactly their
 * size. */
#include "target.h"

#include "mem/unpack_priv.h"

#define HEAD 8u /* posted, expected, pool: 16 bits each; how pieces are made; offset */
#define POISON 0xa5

static struct mem_unpack *unpack;

/* Independent of how the engine looks at it: every byte is counted. */
static int list_good(const struct mem_unpack_job *job)
{
	static uint8_t hit[65536];
	uint64_t sum = 0;

	if (job->nfrags > MEM_UNPACK_FRAGS)
		return 0;
	memset(hit, 0, job->dst_bytes);
	for (uint32_t i = 0; i < job->nfrags; i++) {
		const struct base_frag *f = &job->frags[i];

		if (f->src > job->src_bytes || f->len > job->src_bytes - f->src ||
		    f->dst > job->dst_bytes || f->len > job->dst_bytes - f->dst)
			return 0;
		for (uint64_t k = f->dst; k < f->dst + f->len; k++)
			if (hit[k]++)
				return 0;
		sum += f->len;
	}
	return sum == job->expect;
}

static void run_job(struct mem_unpack_job *job, uint8_t *memory, uint8_t *want)
{
	int good = list_good(job);
	tcpx_status status = mem_unpack_push(unpack, job);

	FUZZ_CHECK((status == TCPX_OK) == good);
	FUZZ_CHECK(good || status == TCPX_ERR_CORRUPT || status == TCPX_ERR_LIMIT);
	mem_unpack_flush(unpack);
	if (good) {
		FUZZ_CHECK(mem_unpack_test(unpack, job) == TCPX_OK && job->moved);
		mem_unpack_frags(job->frags, job->nfrags, (const void *)(uintptr_t)job->src, want);
	}
	FUZZ_CHECK(!memcmp(memory, want, job->dst_bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct mem_unpack_opts opts = {.mode = MEM_UNPACK_CPU,
					     .job_bytes = MEM_UNPACK_JOB_MAX};
	uint8_t *pool, *memory, *want;
	struct base_frag *frags;
	uint16_t numbers[3];
	uint32_t count, off;

	if (size < HEAD)
		return 0;
	if (!unpack)
		FUZZ_CHECK(mem_unpack_open(&opts, &unpack) == TCPX_OK);
	memcpy(numbers, data, sizeof(numbers));
	unpack->split = data[6] & 1;
	off = data[7] % 16;
	count = (uint32_t)((size - HEAD) / sizeof(*frags));
	pool = malloc(numbers[2] + 1u);
	memory = malloc(numbers[0] + off + 1u);
	want = malloc(numbers[0] + 1u);
	frags = malloc(count * sizeof(*frags) + 1);
	FUZZ_CHECK(pool && memory && want && frags);
	for (uint32_t i = 0; i < numbers[2]; i++)
		pool[i] = (uint8_t)(i * 7 + i / 256);
	memset(memory, POISON, numbers[0] + off);
	memset(want, POISON, numbers[0]);
	memcpy(frags, data + HEAD, count * sizeof(*frags));
	run_job(&(struct mem_unpack_job){.frags = frags,
					 .nfrags = count,
					 .src = (uintptr_t)pool,
					 .src_bytes = numbers[2],
					 .dst = (uintptr_t)memory + off,
					 .dst_bytes = numbers[0],
					 .expect = numbers[1]},
		memory + off, want);
	free(pool);
	free(memory);
	free(want);
	free(frags);
	return 0;
}
