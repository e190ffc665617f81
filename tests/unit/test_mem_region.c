/* SPDX-License-Identifier: Apache-2.0 */
/* Region table: rights, ranges, stale ids, STABLE duplicates, retirement against accesses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "mem/region.h"

#define LENGTH 4096u
#define BOTH (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

static uint8_t memory[LENGTH];

static struct mem_regions *table(void)
{
	struct mem_regions *regions = NULL;

	assert_int_equal(mem_regions_create(&regions), TCPX_OK);
	return regions;
}

static uint64_t add(struct mem_regions *regions, uint32_t rights, uint32_t flags)
{
	tcpx_region_opts opts = {.sz = sizeof(opts), .rights = rights, .flags = flags};
	uint64_t id = 0;

	assert_int_equal(mem_region_add(regions, memory, LENGTH, &opts, &id), TCPX_OK);
	assert_true(id != 0 && !(id >> 63));
	return id;
}

static uint64_t key_of(struct mem_regions *regions, uint64_t id)
{
	struct mem_region *region = mem_region_get(regions, id);
	uint64_t key;

	assert_non_null(region);
	key = region->own.key;
	mem_region_put(region);
	return key;
}

static tcpx_status touch(struct mem_regions *regions, uint64_t key, uint64_t offset,
			 uint64_t length, uint32_t right)
{
	struct mem_region *region = NULL;
	tcpx_status status = mem_region_access(regions, NULL, key, offset, length, right, &region);

	if (!status)
		mem_region_access_end(region);
	else
		assert_null(region);
	return status;
}

static void drop(struct mem_regions *regions, uint64_t id)
{
	struct mem_region *region = NULL;

	assert_int_equal(mem_region_retire(regions, id, &region), TCPX_OK);
	if (!region)
		return; /* it has another id */
	assert_int_equal(mem_region_quiesce(region, 1), TCPX_OK);
	mem_region_remove(regions, id);
	mem_region_put(region);
}

static void ranges_are_overflow_safe(void **state)
{
	struct mem_regions *regions = table();
	uint64_t key = key_of(regions, add(regions, BOTH, 0));
	static const struct {
		uint64_t offset, length;
		int fits;
	} rows[] = {
		{0, LENGTH, 1},
		{0, LENGTH + 1, 0},
		{1, LENGTH - 1, 1},
		{1, LENGTH, 0},
		{LENGTH, 0, 1},
		{LENGTH, 1, 0},
		{LENGTH + 1, 0, 0},
		{0, 0, 1},
		{UINT64_MAX, 1, 0},
		{UINT64_MAX, 2, 0},
		{2, UINT64_MAX - 1, 0},
		{2, UINT64_MAX, 0},
		{1, UINT64_MAX, 0},
		{UINT64_MAX, UINT64_MAX, 0},
		{UINT64_MAX - LENGTH + 1, LENGTH, 0},
		{LENGTH - 1, 1, 1},
		{LENGTH - 1, 2, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(touch(regions, key, rows[i].offset, rows[i].length, BOTH),
				 rows[i].fits ? TCPX_OK : TCPX_ERR_REMOTE_RANGE);
	mem_regions_destroy(regions);
}

static void rights_and_keys_are_checked(void **state)
{
	struct mem_regions *regions = table();
	uint64_t reads = key_of(regions, add(regions, TCPX_RIGHT_READ, 0));
	uint64_t writes = key_of(regions, add(regions, TCPX_RIGHT_WRITE, 0));
	uint64_t local = key_of(regions, add(regions, 0, 0));

	(void)state;
	assert_int_equal(touch(regions, reads, 0, 1, TCPX_RIGHT_READ), TCPX_OK);
	assert_int_equal(touch(regions, reads, 0, 1, TCPX_RIGHT_WRITE), TCPX_ERR_REMOTE_RIGHTS);
	assert_int_equal(touch(regions, writes, 0, 1, TCPX_RIGHT_WRITE), TCPX_OK);
	assert_int_equal(touch(regions, writes, 0, 1, TCPX_RIGHT_READ), TCPX_ERR_REMOTE_RIGHTS);
	assert_int_equal(touch(regions, local, 0, 1, TCPX_RIGHT_READ), TCPX_ERR_REMOTE_RIGHTS);
	assert_int_equal(touch(regions, reads ^ 1, 0, 1, TCPX_RIGHT_READ), TCPX_ERR_REMOTE_KEY);
	assert_int_equal(touch(regions, 0, 0, 1, 0), TCPX_ERR_REMOTE_KEY);
	/* The right is looked at before the range: a prober learns no lengths. */
	assert_int_equal(touch(regions, local, 0, LENGTH + 1, TCPX_RIGHT_READ),
			 TCPX_ERR_REMOTE_RIGHTS);
	mem_regions_destroy(regions);
}

static void bad_registrations_are_refused(void **state)
{
	struct mem_regions *regions = table();
	tcpx_region_opts opts = {.sz = sizeof(opts)};
	uint8_t *top = (uint8_t *)UINTPTR_MAX;
	uint64_t id = 99;

	(void)state;
	assert_int_equal(mem_region_add(regions, NULL, 1, NULL, &id), TCPX_ERR_INVALID);
	assert_int_equal(mem_region_add(regions, memory, 0, NULL, &id), TCPX_ERR_INVALID);
	assert_int_equal(mem_region_add(regions, memory, UINT64_MAX, NULL, &id), TCPX_ERR_INVALID);
	assert_int_equal(mem_region_add(regions, top, 2, NULL, &id), TCPX_ERR_INVALID);
	opts.rights = 4;
	assert_int_equal(mem_region_add(regions, memory, 1, &opts, &id), TCPX_ERR_INVALID);
	opts.rights = 0;
	opts.flags = 2;
	assert_int_equal(mem_region_add(regions, memory, 1, &opts, &id), TCPX_ERR_INVALID);
	opts.flags = 0;
	opts.kind = (enum tcpx_mem_kind)77;
	assert_int_equal(mem_region_add(regions, memory, 1, &opts, &id), TCPX_ERR_UNSUPPORTED);
	opts.kind = TCPX_MEM_HOST;
	opts.device = 3;
	assert_int_equal(mem_region_add(regions, memory, 1, &opts, &id), TCPX_ERR_INVALID);
	assert_int_equal(id, 99);
	assert_int_equal(mem_regions_count(regions), 0);
	mem_regions_destroy(regions);
}

static void stale_ids_are_refused(void **state)
{
	struct mem_regions *regions = table();
	struct mem_region *region = NULL;
	uint64_t first = add(regions, BOTH, 0), key = key_of(regions, first), id = first;

	(void)state;
	for (int i = 0; i < 1000; i++) { /* the same slot again and again */
		drop(regions, id);
		assert_null(mem_region_get(regions, id));
		id = add(regions, BOTH, 0);
		assert_true(id != first);
		assert_true(key_of(regions, id) != key);
		assert_null(mem_region_get(regions, first));
	}
	assert_int_equal(mem_region_retire(regions, first, &region), TCPX_ERR_STALE);
	assert_null(region);
	assert_int_equal(touch(regions, key, 0, 1, TCPX_RIGHT_READ), TCPX_ERR_REMOTE_KEY);
	assert_null(mem_region_get(regions, 0));
	assert_null(mem_region_get(regions, UINT64_MAX));
	assert_null(mem_region_get(regions, id + 1));
	assert_null(mem_region_get(regions, id | 1ull << 63));
	assert_int_equal(mem_regions_count(regions), 1);
	mem_regions_destroy(regions);
}

static void stable_duplicates_serve_each_other(void **state)
{
	struct mem_regions *regions = table();
	uint64_t a = add(regions, BOTH, TCPX_REGION_STABLE);
	uint64_t b = add(regions, BOTH, TCPX_REGION_STABLE);
	uint64_t key = key_of(regions, a);
	struct mem_region *access = NULL, *gone;

	(void)state;
	assert_true(a != b);
	assert_int_equal(key_of(regions, b), key);
	assert_true(key_of(regions, add(regions, TCPX_RIGHT_READ, TCPX_REGION_STABLE)) != key);
	assert_true(key_of(regions, add(regions, BOTH, 0)) != key);
	drop(regions, b);
	assert_null(mem_region_get(regions, b));
	assert_int_equal(mem_region_retire(regions, b, &gone), TCPX_ERR_STALE);
	assert_int_equal(touch(regions, key, 0, LENGTH, BOTH), TCPX_OK);
	b = add(regions, BOTH, TCPX_REGION_STABLE);
	/* An access under way goes on, whichever of the two it found. */
	assert_int_equal(mem_region_access(regions, NULL, key, 0, 1, BOTH, &access), TCPX_OK);
	assert_int_equal(mem_region_retire(regions, a, &gone), TCPX_OK);
	assert_null(gone);
	assert_int_equal(access->retired, 0);
	mem_region_access_end(access);
	assert_int_equal(touch(regions, key, 0, LENGTH, BOTH), TCPX_OK);
	drop(regions, b);
	assert_int_equal(touch(regions, key, 0, LENGTH, BOTH), TCPX_ERR_REMOTE_KEY);
	a = add(regions, BOTH, TCPX_REGION_STABLE);
	assert_int_equal(key_of(regions, a), key); /* the same memory has the same key again */
	mem_regions_destroy(regions);
}

static void tables_have_secrets_of_their_own(void **state)
{
	struct mem_regions *one = table(), *two = table();

	(void)state;
	assert_true(key_of(one, add(one, BOTH, TCPX_REGION_STABLE)) !=
		    key_of(two, add(two, BOTH, TCPX_REGION_STABLE)));
	mem_regions_destroy(one);
	mem_regions_destroy(two);
}

static void busy_region_stays_until_quiet(void **state)
{
	struct mem_regions *regions = table();
	uint64_t id = add(regions, BOTH, 0), key = key_of(regions, id);
	struct mem_region *access = NULL, *first = NULL, *second = NULL;

	(void)state;
	assert_int_equal(mem_region_access(regions, NULL, key, 0, 1, BOTH, &access), TCPX_OK);
	assert_int_equal(mem_region_retire(regions, id, &first), TCPX_OK);
	assert_int_equal(touch(regions, key, 0, 1, BOTH), TCPX_ERR_REMOTE_KEY);
	assert_null(mem_region_get(regions, id));
	assert_int_equal(mem_region_io_get(access), 0);
	assert_int_equal(mem_region_quiesce(first, clock_now_ns() + 1000000), TCPX_ERR_BUSY);
	assert_int_equal(mem_regions_count(regions), 1);
	assert_int_equal(mem_region_retire(regions, id, &second), TCPX_OK);
	assert_ptr_equal(first, second);
	mem_region_access_end(access);
	assert_int_equal(mem_region_quiesce(second, 0), TCPX_OK);
	mem_region_remove(regions, id);
	mem_region_remove(regions, id); /* by whoever comes second: nothing */
	assert_int_equal(mem_regions_count(regions), 0);
	mem_region_put(first);
	mem_region_put(second);
	mem_regions_destroy(regions);
}

static void region_outlives_its_table(void **state)
{
	struct mem_regions *regions = table();
	struct mem_region *access = NULL;

	(void)state;
	assert_int_equal(mem_region_access(regions, NULL, key_of(regions, add(regions, BOTH, 0)), 0,
					   1, BOTH, &access),
			 TCPX_OK);
	mem_regions_destroy(regions);
	assert_int_equal(mem_region_io_get(access), 0);
	mem_region_access_end(access);
}

struct race {
	struct mem_regions *regions;
	_Atomic uint64_t key;
	_Atomic int stop;
	/* What an access writes to; after quiesce nobody may. Plain on purpose. */
	uint64_t guarded[4];
	_Atomic uint64_t accesses;
};

struct racer {
	struct race *race;
	int index;
};

static void *race_access(void *arg)
{
	struct racer *racer = arg;
	struct race *race = racer->race;

	while (!race->stop) {
		struct mem_region *region = NULL;

		if (mem_region_access(race->regions, NULL, race->key, 0, 1, BOTH, &region))
			continue;
		race->guarded[racer->index]++;
		race->accesses++;
		mem_region_access_end(region);
	}
	return NULL;
}

static void retire_races_with_accesses(void **state)
{
	struct race race = {.regions = table()};
	struct racer racers[4];
	pthread_t threads[4];
	int rounds = 0;

	(void)state;
	for (int i = 0; i < 4; i++) {
		racers[i] = (struct racer){&race, i};
		assert_int_equal(pthread_create(&threads[i], NULL, race_access, &racers[i]), 0);
	}
	/* Ends by counts, never by the clock: so many rounds, and enough of them met accesses. */
	for (uint64_t met = 0; rounds < 300 || met < 50; rounds++) {
		uint64_t id = add(race.regions, BOTH, 0), before = race.accesses;
		struct mem_region *region = NULL;

		race.key = key_of(race.regions, id);
		while (rounds % 10 == 0 && race.accesses == before)
			sched_yield();
		assert_int_equal(mem_region_retire(race.regions, id, &region), TCPX_OK);
		assert_int_equal(mem_region_quiesce(region, -1), TCPX_OK);
		met += race.accesses != before;
		for (int i = 0; i < 4; i++)
			race.guarded[i] = 0; /* a race only if quiesce lied */
		for (int i = 0; i < 4; i++)
			assert_int_equal(race.guarded[i], 0);
		mem_region_remove(race.regions, id);
		mem_region_put(region);
	}
	race.stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	mem_regions_destroy(race.regions);
}

/* A model: what the table must say, kept by hand in the plainest way. */
struct model {
	uint64_t id, key, length;
	uint32_t rights;
	int live;
};

#define MODEL 64

static void model_access(struct rng *rng, struct mem_regions *regions, const struct model *row)
{
	static const uint64_t edges[] = {0, 1, 2, UINT64_MAX, UINT64_MAX - 1, 1ull << 63};
	uint64_t offset = rng_below(rng, row->length + 2), length = rng_below(rng, row->length + 2);
	uint32_t right = (uint32_t)rng_below(rng, 4);
	tcpx_status want = TCPX_OK;

	if (rng_one_in(rng, 4))
		offset = edges[rng_below(rng, 6)];
	if (rng_one_in(rng, 4))
		length = edges[rng_below(rng, 6)];
	if (!row->live)
		want = TCPX_ERR_REMOTE_KEY;
	else if (right & ~row->rights)
		want = TCPX_ERR_REMOTE_RIGHTS;
	else if ((unsigned __int128)offset + length > row->length)
		want = TCPX_ERR_REMOTE_RANGE;
	assert_int_equal(touch(regions, row->key, offset, length, right), want);
}

static void model_step(struct rng *rng, struct mem_regions *regions, struct model *row)
{
	tcpx_region_opts opts = {.sz = sizeof(opts)};
	struct mem_region *region;

	if (row->live && rng_one_in(rng, 8)) {
		drop(regions, row->id);
		row->live = 0;
	} else if (!row->live && rng_one_in(rng, 2)) {
		row->length = 1 + rng_below(rng, LENGTH);
		row->rights = opts.rights = (uint32_t)rng_below(rng, 4);
		assert_int_equal(mem_region_add(regions, memory, row->length, &opts, &row->id),
				 TCPX_OK);
		row->key = key_of(regions, row->id);
		row->live = 1;
	}
	region = row->id ? mem_region_get(regions, row->id) : NULL;
	assert_int_equal(region != NULL, row->live);
	if (region) {
		assert_int_equal(region->length, row->length);
		mem_region_put(region);
	}
	if (row->key)
		model_access(rng, regions, row);
}

static void random_histories_match_the_model(void **state)
{
	struct mem_regions *regions = table();
	struct model rows[MODEL] = {0};
	struct rng rng;

	(void)state;
	rng_seed(&rng, 20240611);
	for (int i = 0; i < 1000000; i++)
		model_step(&rng, regions, &rows[rng_below(&rng, MODEL)]);
	mem_regions_destroy(regions);
}

static void many_regions(void **state)
{
	enum { COUNT = 5000 };
	struct mem_regions *regions = table();
	uint64_t *ids = calloc(COUNT, sizeof(*ids));

	(void)state;
	assert_non_null(ids);
	for (int i = 0; i < COUNT; i++)
		ids[i] = add(regions, BOTH, 0);
	assert_int_equal(mem_regions_count(regions), COUNT);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(touch(regions, key_of(regions, ids[i]), 0, 1, BOTH), TCPX_OK);
	for (int i = 0; i < COUNT; i++)
		drop(regions, ids[i]);
	assert_int_equal(mem_regions_count(regions), 0);
	mem_regions_destroy(regions);
	free(ids);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_are_overflow_safe),
		cmocka_unit_test(rights_and_keys_are_checked),
		cmocka_unit_test(bad_registrations_are_refused),
		cmocka_unit_test(stale_ids_are_refused),
		cmocka_unit_test(stable_duplicates_serve_each_other),
		cmocka_unit_test(tables_have_secrets_of_their_own),
		cmocka_unit_test(busy_region_stays_until_quiet),
		cmocka_unit_test(region_outlives_its_table),
		cmocka_unit_test(retire_races_with_accesses),
		cmocka_unit_test(random_histories_match_the_model),
		cmocka_unit_test(many_regions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
