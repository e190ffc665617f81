/* SPDX-License-Identifier: Apache-2.0 */
/* The check of perf finds every wrong byte: of the pattern, and beside the transfers. */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/rng.h"
#include "cli_output.h"
#include "perf_layout.h"
#include "perf_pattern.h"
#include "unit.h"

#define KEY 0x1234567890abcdefull

static unsigned ok_count; /* so often it may go on */

static tcpx_status ask(const void *arg)
{
	(void)arg;
	return ok_count-- ? TCPX_OK : TCPX_ERR_CANCELLED;
}

static const struct perf_leave leave = {ask, NULL};

static uint64_t check(const struct perf_layout *layout, const void *dst, uint32_t used,
		      uint64_t key, uint64_t *out_first)
{
	struct perf_wrong wrong;

	ok_count = UINT32_MAX;
	assert_int_equal(perf_layout_check(layout, dst, used, key, &leave, &wrong), TCPX_OK);
	*out_first = wrong.first;
	return wrong.count;
}

/* A destination as it is after the first used transfers were applied. */
static uint8_t *apply(const struct perf_layout *layout, uint32_t used)
{
	uint8_t *dst = malloc(layout->working_set), *src = malloc(layout->working_set);

	assert_non_null(dst);
	assert_non_null(src);
	perf_pattern_fill(src, 0, layout->working_set, KEY);
	memset(dst, PERF_POISON, layout->working_set);
	for (uint32_t p = 0; p < used * layout->batch; p++)
		memcpy(dst + perf_layout_dst(layout, p), src + perf_layout_src(layout, p),
		       layout->piece);
	free(src);
	return dst;
}

static void each_single_wrong_byte_counts(void **state)
{
	static const struct {
		uint64_t working_set, size;
		uint32_t batch;
	} cases[] = {{4096, 4096, 1}, {4096, 1000, 1}, {4096, 8, 1},   {4099, 1024, 8},
		     {5000, 1000, 5}, {4096, 3, 3},    {1 << 15, 1, 1}};
	struct rng rng;

	(void)state;
	rng_seed(&rng, 1);
	for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct perf_layout layout;
		uint64_t first = 0;
		uint32_t used;
		uint8_t *dst;

		assert_int_equal(perf_layout_init(&layout, cases[c].working_set, cases[c].size,
						  cases[c].batch, 7),
				 0);
		used = layout.transfers > 1 ? layout.transfers - 1 : 1;
		dst = apply(&layout, used);
		assert_int_equal(check(&layout, dst, used, KEY, &first), 0);
		for (unsigned i = 0; i < 200; i++) {
			uint64_t at = rng_below(&rng, layout.working_set);

			dst[at] ^= 0x80;
			assert_int_equal(check(&layout, dst, used, KEY, &first), 1);
			assert_int_equal(first, at);
			dst[at] ^= 0x80;
		}
		assert_true(check(&layout, dst, used, KEY + 1, &first) > 0);
		free(dst);
		perf_layout_fini(&layout);
	}
}

/* A view that gives few bytes at a time, as a block of pinned memory does at its end. */
static tcpx_status look(void *arg, uint64_t at, uint64_t len, const uint8_t **out,
			uint64_t *out_len)
{
	*out = (const uint8_t *)arg + at;
	*out_len = len < 7 ? len : 7;
	return TCPX_OK;
}

static void a_view_in_small_parts_finds_the_same(void **state)
{
	struct perf_wrong whole, parts;
	struct perf_layout layout;
	struct perf_view view = {look, NULL};
	uint8_t *dst;

	(void)state;
	ok_count = UINT32_MAX;
	assert_int_equal(perf_layout_init(&layout, 4099, 1024, 8, 7), 0);
	dst = apply(&layout, 2);
	view.arg = dst;
	assert_int_equal(perf_layout_check_view(&layout, &view, 2, KEY, &leave, &parts), TCPX_OK);
	assert_int_equal(parts.count, 0);
	dst[4098] ^= 1;
	dst[3000] ^= 1;
	dst[131] ^= 1;
	assert_int_equal(perf_layout_check(&layout, dst, 2, KEY, &leave, &whole), TCPX_OK);
	assert_int_equal(perf_layout_check_view(&layout, &view, 2, KEY, &leave, &parts), TCPX_OK);
	assert_int_equal(whole.count, 3);
	assert_int_equal(whole.first, 131);
	assert_int_equal(parts.count, whole.count);
	assert_int_equal(parts.first, whole.first);
	free(dst);
	perf_layout_fini(&layout);
}

static void large_buffers_are_left_between_pieces(void **state)
{
	const uint64_t bytes = 8 * PERF_PIECE_BYTES;
	uint8_t *dst = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct perf_wrong wrong = {.count = 77};
	struct perf_layout layout;

	(void)state;
	assert_true(dst != MAP_FAILED);
	ok_count = 1;
	assert_int_equal(perf_fill(NULL, dst, bytes, KEY, &leave), TCPX_ERR_CANCELLED);
	assert_int_equal(dst[2 * PERF_PIECE_BYTES - 1], PERF_POISON);
	assert_int_equal(dst[2 * PERF_PIECE_BYTES], 0);
	ok_count = 1;
	assert_int_equal(perf_layout_init(&layout, bytes, bytes, 1, 7), 0);
	assert_int_equal(perf_layout_check(&layout, dst, 0, KEY, &leave, &wrong),
			 TCPX_ERR_CANCELLED);
	assert_int_equal(wrong.count, 77);
	perf_layout_fini(&layout);
	ok_count = 1;
	assert_int_equal(perf_layout_init(&layout, bytes, 4096, 1, 7), 0);
	assert_int_equal(perf_layout_check(&layout, dst, layout.transfers, KEY, &leave, &wrong),
			 TCPX_ERR_CANCELLED);
	perf_layout_fini(&layout);
	munmap(dst, bytes);
}

static void the_first_signal_is_seen_and_the_next_ends(void **state)
{
	static const int signals[] = {SIGINT, SIGTERM};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct sigaction act;

		cli_output_init("unit");
		cli_interrupted = 0;
		raise(signals[i]);
		assert_int_equal(cli_interrupted, 1);
		assert_int_equal(sigaction(signals[i], NULL, &act), 0);
		assert_true(act.sa_handler == SIG_DFL);
	}
}

static void pieces_never_overlap_and_stay_inside(void **state)
{
	(void)state;
	for (uint64_t size = 1; size <= 4096; size = size * 3 + 1) {
		struct perf_layout layout;
		uint8_t *hit;
		const uint64_t ws = 64 << 10;

		assert_int_equal(perf_layout_init(&layout, ws, size, size % 2 ? 1 : 2, size), 0);
		hit = calloc(1, ws);
		assert_non_null(hit);
		for (uint32_t p = 0; p < layout.transfers * layout.batch; p++) {
			uint64_t at = perf_layout_dst(&layout, p);

			assert_true(at + layout.piece <= ws);
			assert_true(perf_layout_src(&layout, p) + layout.piece <= ws);
			for (uint64_t i = 0; i < layout.piece; i++)
				assert_int_equal(hit[at + i]++, 0);
		}
		free(hit);
		perf_layout_fini(&layout);
	}
}

static void pattern_is_the_same_however_it_is_cut(void **state)
{
	uint8_t whole[1024], parts[1024];
	struct rng rng;

	(void)state;
	rng_seed(&rng, 2);
	perf_pattern_fill(whole, 5, sizeof(whole), KEY);
	for (unsigned round = 0; round < 100; round++) {
		for (size_t at = 0, len; at < sizeof(parts); at += len) {
			len = rng_range(&rng, 1, 200);
			if (len > sizeof(parts) - at)
				len = sizeof(parts) - at;
			perf_pattern_fill(parts + at, 5 + at, len, KEY);
		}
		assert_memory_equal(parts, whole, sizeof(whole));
	}
}

/* Data that lands in another place or is of another window is nearly all wrong. */
static void pattern_depends_on_position_and_window(void **state)
{
	enum { BYTES = 64 << 10 };
	uint8_t *buf = malloc(BYTES);
	uint64_t key = perf_pattern_key(1, 1, 0);
	size_t first;

	(void)state;
	assert_non_null(buf);
	perf_pattern_fill(buf, 0, BYTES, key);
	for (uint64_t shift = 1; shift < 1u << 30; shift *= 2)
		assert_true(perf_pattern_check(buf, shift, BYTES, key, &first) > BYTES * 9 / 10);
	assert_true(perf_pattern_check(buf, 0, BYTES, perf_pattern_key(1, 2, 0), &first) >
		    BYTES * 9 / 10);
	assert_true(perf_pattern_check(buf, 0, BYTES, perf_pattern_key(1, 1, 1), &first) >
		    BYTES * 9 / 10);
	free(buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_single_wrong_byte_counts),
		cmocka_unit_test(a_view_in_small_parts_finds_the_same),
		cmocka_unit_test(large_buffers_are_left_between_pieces),
		cmocka_unit_test(the_first_signal_is_seen_and_the_next_ends),
		cmocka_unit_test(pieces_never_overlap_and_stay_inside),
		cmocka_unit_test(pattern_is_the_same_however_it_is_cut),
		cmocka_unit_test(pattern_depends_on_position_and_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
