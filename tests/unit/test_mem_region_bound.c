/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that are bound to one peer: whom they serve, and how long. */
#include "unit.h"

#include <stdlib.h>

#include "base/error.h"
#include "mem/region.h"

#define LENGTH 4096u
#define BOTH (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

static uint8_t memory[LENGTH];
static const uint8_t alice[MEM_PEER_BYTES] = {1, 2, 3}, bob[MEM_PEER_BYTES] = {1, 2, 4};

static struct mem_regions *table(void)
{
	struct mem_regions *regions = NULL;

	assert_int_equal(mem_regions_create(&regions), TCPX_OK);
	return regions;
}

static struct mem_region *add(struct mem_regions *regions, uint32_t rights, uint32_t flags,
			      uint64_t *out_id)
{
	tcpx_region_opts opts = {.sz = sizeof(opts), .rights = rights, .flags = flags};
	struct mem_region *region;

	assert_int_equal(mem_region_add(regions, memory, LENGTH, &opts, out_id), TCPX_OK);
	region = mem_region_get(regions, *out_id);
	assert_non_null(region);
	return region;
}

static uint64_t bind_to(struct mem_regions *regions, struct mem_region *region, const uint8_t *peer)
{
	uint64_t key = 0;

	assert_int_equal(mem_region_bind(regions, region, peer, &key), TCPX_OK);
	assert_true(key != 0);
	return key;
}

static tcpx_status touch(struct mem_regions *regions, const uint8_t *peer, uint64_t key,
			 uint64_t offset, uint32_t right)
{
	struct mem_region *region = NULL;
	tcpx_status status = mem_region_access(regions, peer, key, offset, 1, right, &region);

	if (!status)
		mem_region_access_end(region);
	else
		assert_null(region);
	return status;
}

/* The last registration goes, and the caller's reference. */
static void drop(struct mem_regions *regions, uint64_t id, struct mem_region *region)
{
	struct mem_region *gone = NULL;

	assert_int_equal(mem_region_retire(regions, id, &gone), TCPX_OK);
	assert_ptr_equal(gone, region);
	assert_int_equal(mem_region_quiesce(region, 1), TCPX_OK);
	mem_region_remove(regions, id);
	mem_region_put(gone);
	mem_region_put(region);
}

static void one_peer_is_served(void **state)
{
	struct mem_regions *regions = table();
	uint64_t id, key, own;
	struct mem_region *region = add(regions, TCPX_RIGHT_READ, 0, &id);

	(void)state;
	own = region->own.key;
	key = bind_to(regions, region, alice);
	assert_true(key != own);
	assert_int_equal(touch(regions, alice, key, 0, TCPX_RIGHT_READ), TCPX_OK);
	assert_int_equal(touch(regions, bob, key, 0, TCPX_RIGHT_READ), TCPX_ERR_REMOTE_KEY);
	assert_int_equal(touch(regions, NULL, key, 0, TCPX_RIGHT_READ), TCPX_ERR_REMOTE_KEY);
	assert_int_equal(touch(regions, alice, key ^ 1, 0, TCPX_RIGHT_READ), TCPX_ERR_REMOTE_KEY);
	/* To others it is unknown, whatever else is wrong. */
	assert_int_equal(touch(regions, bob, key, LENGTH, BOTH), TCPX_ERR_REMOTE_KEY);
	assert_int_equal(touch(regions, alice, key, 0, BOTH), TCPX_ERR_REMOTE_RIGHTS);
	assert_int_equal(touch(regions, alice, key, LENGTH, TCPX_RIGHT_READ),
			 TCPX_ERR_REMOTE_RANGE);
	/* The region's own key serves everybody. */
	assert_int_equal(touch(regions, alice, own, 0, TCPX_RIGHT_READ), TCPX_OK);
	assert_int_equal(touch(regions, bob, own, 0, TCPX_RIGHT_READ), TCPX_OK);
	assert_int_equal(touch(regions, NULL, own, 0, TCPX_RIGHT_READ), TCPX_OK);
	drop(regions, id, region);
	mem_regions_destroy(regions);
}

static void the_same_key_each_time(void **state)
{
	struct mem_regions *regions = table();
	uint64_t id[2], keys[4];
	struct mem_region *region[2];

	(void)state;
	for (int i = 0; i < 2; i++) { /* of the same memory, but two regions */
		region[i] = add(regions, BOTH, 0, &id[i]);
		keys[2 * i] = bind_to(regions, region[i], alice);
		keys[2 * i + 1] = bind_to(regions, region[i], bob);
		assert_int_equal(bind_to(regions, region[i], alice), keys[2 * i]);
		assert_int_equal(bind_to(regions, region[i], bob), keys[2 * i + 1]);
	}
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			assert_true(keys[i] != keys[j]);
	assert_int_equal(mem_regions_count(regions), 2);
	for (int i = 0; i < 2; i++)
		drop(regions, id[i], region[i]);
	mem_regions_destroy(regions);
}

static void it_ends_with_the_region(void **state)
{
	struct mem_regions *regions = table();
	uint64_t id, key, other = 77;
	struct mem_region *region = add(regions, BOTH, 0, &id), *access = NULL, *gone;

	(void)state;
	key = bind_to(regions, region, alice);
	assert_int_equal(mem_region_access(regions, alice, key, 0, 1, BOTH, &access), TCPX_OK);
	assert_int_equal(mem_region_retire(regions, id, &gone), TCPX_OK);
	assert_int_equal(touch(regions, alice, key, 0, BOTH), TCPX_ERR_REMOTE_KEY);
	assert_int_equal(mem_region_bind(regions, region, bob, &other), TCPX_ERR_STALE);
	assert_int_equal(other, 77);
	mem_region_access_end(access);
	mem_region_put(gone);
	drop(regions, id, region);
	assert_int_equal(touch(regions, alice, key, 0, BOTH), TCPX_ERR_REMOTE_KEY);
	region = add(regions, BOTH, 0, &id);
	assert_true(bind_to(regions, region, alice) != key);
	assert_int_equal(touch(regions, alice, key, 0, BOTH), TCPX_ERR_REMOTE_KEY);
	/* The table goes first: the region lives as long as it is held. */
	mem_regions_destroy(regions);
	assert_null(region->bound);
	mem_region_put(region);
}

/* Of STABLE memory the key lasts as long as one registration, and is the same one after that. */
static void stable_memory(void **state)
{
	struct mem_regions *regions = table();
	uint64_t id[2], key;
	struct mem_region *region = add(regions, BOTH, TCPX_REGION_STABLE, &id[0]), *gone;

	(void)state;
	key = bind_to(regions, region, alice);
	mem_region_put(add(regions, BOTH, TCPX_REGION_STABLE, &id[1]));
	assert_int_equal(bind_to(regions, region, alice), key);
	assert_int_equal(mem_region_retire(regions, id[0], &gone), TCPX_OK);
	assert_null(gone);
	assert_int_equal(touch(regions, alice, key, 0, BOTH), TCPX_OK);
	/* While the old one is still accessed, the memory is registered and bound anew. */
	assert_int_equal(mem_region_access(regions, alice, key, 0, 1, BOTH, &gone), TCPX_OK);
	mem_region_put(region);
	region = gone;
	assert_int_equal(mem_region_retire(regions, id[1], &gone), TCPX_OK);
	mem_region_put(gone);
	gone = add(regions, BOTH, TCPX_REGION_STABLE, &id[0]);
	assert_ptr_not_equal(gone, region);
	assert_int_equal(touch(regions, alice, key, 0, BOTH), TCPX_ERR_REMOTE_KEY);
	assert_int_equal(bind_to(regions, gone, alice), key);
	assert_int_equal(touch(regions, alice, key, 0, BOTH), TCPX_OK);
	mem_region_io_put(region);
	mem_region_remove(regions, id[1]);
	mem_region_put(region);
	assert_int_equal(touch(regions, alice, key, 0, BOTH), TCPX_OK); /* of the new one */
	drop(regions, id[0], gone);
	assert_int_equal(touch(regions, alice, key, 0, BOTH), TCPX_ERR_REMOTE_KEY);
	mem_regions_destroy(regions);
}

static void peer_of(uint32_t number, uint8_t *out_peer)
{
	memset(out_peer, 0xee, MEM_PEER_BYTES);
	memcpy(out_peer + 5, &number, sizeof(number));
}

/* As many as there may be, each found; no more until a region goes. */
static void so_many_and_no_more(void **state)
{
	struct mem_regions *regions = table();
	uint64_t id[2], key = 77, first;
	struct mem_region *region[2];
	uint8_t peer[MEM_PEER_BYTES];

	(void)state;
	region[0] = add(regions, BOTH, 0, &id[0]);
	region[1] = add(regions, BOTH, 0, &id[1]);
	first = bind_to(regions, region[1], alice);
	for (uint32_t i = 1; i < MEM_BOUND_MAX; i++) {
		peer_of(i, peer);
		if (i % 1000)
			(void)bind_to(regions, region[0], peer);
		else
			assert_int_equal(
				touch(regions, peer, bind_to(regions, region[0], peer), 0, BOTH),
				TCPX_OK);
	}
	assert_int_equal(mem_region_bind(regions, region[1], bob, &key), TCPX_ERR_LIMIT);
	assert_int_equal(key, 77);
	assert_non_null(strstr(error_last()->what, "1048576 region tokens are bound"));
	assert_non_null(strstr(error_last()->next, "deregister regions"));
	assert_int_equal(bind_to(regions, region[1], alice), first); /* no further one */
	drop(regions, id[0], region[0]);
	assert_int_equal(touch(regions, alice, first, 0, BOTH), TCPX_OK);
	(void)bind_to(regions, region[1], bob);
	drop(regions, id[1], region[1]);
	mem_regions_destroy(regions);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_peer_is_served),	   cmocka_unit_test(the_same_key_each_time),
		cmocka_unit_test(it_ends_with_the_region), cmocka_unit_test(stable_memory),
		cmocka_unit_test(so_many_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
