/* SPDX-License-Identifier: Apache-2.0 */
/* The tool's fill and check kernels against its pattern on the CPU: same bytes, same verdict. */
#include "base/error.h"
#include "base/rng.h"
#include "check.h"
#include "gpu_pattern.h"
#include "perf_pattern.h"

#define BYTES (4u << 20)
#define GUARD 64u
#define ROUNDS 60

struct rig {
	struct sys_cuda_gpu *gpu;
	struct sys_cuda_scope scope;
	struct gpu_pattern *pattern;
	struct rng rng;
	cuda_ptr memory;
	uint8_t *have, *want;
};

static void must(tcpx_status status, int line)
{
	if (status != TCPX_OK)
		check_fail(__FILE__, line, "%s", error_last()->what);
}
#define MUST(call) must((call), __LINE__)

static void copy(struct rig *rig, cuda_ptr dst, cuda_ptr src)
{
	cuda_result result = rig->gpu->api->copy(dst, src, BYTES);

	if (result != CUDA_OK)
		MUST(sys_cuda_error(result, "cuMemcpy"));
}

static void rig_open(struct rig *rig)
{
	tcpx_status status;
	cuda_result result;

	rng_seed(&rig->rng, 1);
	status = sys_cuda_get(0, &rig->gpu);
	if (status == TCPX_OK)
		status = gpu_pattern_open(rig->gpu, &rig->pattern);
	if (status == TCPX_ERR_UNSUPPORTED)
		SKIP("%s", error_last()->what);
	MUST(status);
	MUST(sys_cuda_push(rig->gpu, &rig->scope));
	result = rig->gpu->api->mem_alloc(&rig->memory, BYTES);
	if (result != CUDA_OK)
		MUST(sys_cuda_error(result, "cuMemAlloc"));
	rig->have = malloc(BYTES);
	rig->want = malloc(BYTES);
	CHECK(rig->have && rig->want);
}

static void rig_close(struct rig *rig)
{
	(void)rig->gpu->api->mem_free(rig->memory);
	sys_cuda_pop(&rig->scope);
	gpu_pattern_close(rig->pattern);
	sys_cuda_put(rig->gpu);
	free(rig->have);
	free(rig->want);
}

/* A range inside the memory and its source position, of any alignment. */
static uint64_t any_range(struct rig *rig, uint64_t *out_at, uint64_t *out_pos)
{
	uint64_t most = 1ull << rng_range(&rig->rng, 0, 21);

	*out_at = GUARD + rng_below(&rig->rng, 40);
	*out_pos = rng_u64(&rig->rng) >> rng_range(&rig->rng, 20, 60);
	return rng_range(&rig->rng, 1, most);
}

static void fill_writes_the_pattern(void *arg)
{
	struct rig rig = {0};

	(void)arg;
	rig_open(&rig);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t at, pos, bytes = any_range(&rig, &at, &pos), key = rng_u64(&rig.rng);
		int poison = round % 8 == 7;

		memset(rig.want, 0x77, BYTES);
		copy(&rig, rig.memory, (cuda_ptr)(uintptr_t)rig.want);
		if (poison) {
			MUST(gpu_pattern_poison(rig.pattern, rig.memory + at, bytes));
			memset(rig.want + at, PERF_POISON, bytes);
		} else {
			MUST(gpu_pattern_fill(rig.pattern, rig.memory + at, pos, bytes, key));
			perf_pattern_fill(rig.want + at, pos, bytes, key);
		}
		copy(&rig, (cuda_ptr)(uintptr_t)rig.have, rig.memory);
		for (uint64_t i = 0; i < BYTES; i++)
			CHECK_MSG(rig.have[i] == rig.want[i],
				  "round %d: byte %lld of %" PRIu64
				  " at %% 16 = %u, position %" PRIu64 ": %02x, not %02x",
				  round, (long long)(i - at), bytes,
				  (unsigned)((rig.memory + at) % 16), pos, rig.have[i],
				  rig.want[i]);
	}
	rig_close(&rig);
}

static void check_counts_wrong_bytes(void *arg)
{
	struct rig rig = {0};

	(void)arg;
	rig_open(&rig);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t at, pos, bytes = any_range(&rig, &at, &pos), key = rng_u64(&rig.rng);
		uint64_t wrong = 99, first = 99, want = 0, want_first = 99;
		int poison = round % 8 == 7;

		memset(rig.have, 0x11, BYTES); /* outside the range: nobody's business */
		perf_pattern_fill(rig.have + at, pos, bytes, key);
		if (poison)
			memset(rig.have + at, PERF_POISON, bytes);
		for (uint64_t n = rng_below(&rig.rng, 6); n; n--)
			rig.have[at + rng_below(&rig.rng, bytes)] ^=
				(uint8_t)rng_range(&rig.rng, 1, 255);
		if (round == 5)
			memset(rig.have + at, 0, bytes);
		perf_pattern_fill(rig.want + at, pos, bytes, key);
		if (poison)
			memset(rig.want + at, PERF_POISON, bytes);
		for (uint64_t i = bytes; i--;)
			if (rig.have[at + i] != rig.want[at + i]) {
				want++;
				want_first = i;
			}
		copy(&rig, rig.memory, (cuda_ptr)(uintptr_t)rig.have);
		if (poison)
			MUST(gpu_pattern_poison_check(rig.pattern, rig.memory + at, bytes, &wrong,
						      &first));
		else
			MUST(gpu_pattern_check(rig.pattern, rig.memory + at, pos, bytes, key,
					       &wrong, &first));
		CHECK_EQ(wrong, want);
		CHECK_EQ(first, want_first); /* untouched when none is wrong */
	}
	rig_close(&rig);
}

static void no_bytes_are_right(void *arg)
{
	struct rig rig = {0};
	uint64_t wrong = 99, first = 99;

	(void)arg;
	rig_open(&rig);
	MUST(gpu_pattern_fill(rig.pattern, rig.memory, 0, 0, 1));
	MUST(gpu_pattern_check(rig.pattern, rig.memory, 0, 0, 1, &wrong, &first));
	CHECK_EQ(wrong, 0);
	CHECK_EQ(first, 99);
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	static const struct check_case cases[] = {
		{"fill_writes_the_pattern", fill_writes_the_pattern},
		{"check_counts_wrong_bytes", check_counts_wrong_bytes},
		{"no_bytes_are_right", no_bytes_are_right},
	};

	return check_main(cases, sizeof(cases) / sizeof(cases[0]), argc > 1 ? argv[1] : NULL, NULL);
}
