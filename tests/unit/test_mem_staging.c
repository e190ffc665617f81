/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of staging memory: how slots split and merge, whose turn it is, and that nobody is
 * forgotten in the line. */
#include "unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "base/rng.h"
#include "parts/slow.h"
#include "mem/staging.h"

#define POOL_BYTES (8u << 20)
#define HALF (POOL_BYTES / 2)
#define UNITS (POOL_BYTES / MEM_SLOT_MIN)

static struct mem_staging *pool;
static uint8_t *part[2]; /* addresses of the pool's parts, in the order of offsets */
static sem_t grown;

static void *take(struct mem_stager *stager, uint64_t bytes)
{
	return mem_staging_take(pool, bytes, stager, false, NULL);
}

static void pool_has_grown(struct mem_staging *any)
{
	(void)any;
	sem_post(&grown);
}

/* Opens the pools of both directions, and waits until each has its second part. */
static int open_pool(void **state)
{
	(void)state;
	sem_init(&grown, 0, 0);
	atomic_store(&mem_staging_grown, pool_has_grown);
	if (mem_staging_open(&mem_slow, 0))
		return -1;
	for (int i = 0; i < 2; i++)
		while (sem_wait(&grown))
			;
	pool = mem_staging_get(MEM_KIND_TEST, 0, MEM_OUT);
	for (int i = 0; pool && i < 2; i++)
		part[i] = take(NULL, MEM_SLOT_MAX);
	for (int i = 0; pool && i < 2; i++)
		mem_staging_give(pool, part[i], MEM_SLOT_MAX, NULL);
	return pool ? 0 : -1;
}

static int close_pool(void **state)
{
	(void)state;
	mem_staging_stop();
	return mem_staging_get(MEM_KIND_TEST, 0, MEM_OUT) ? -1 : 0;
}

/* Model of the buddy system: whether each unit is taken. */
static bool taken[UNITS];

static uint8_t *unit_addr(uint32_t unit)
{
	uint64_t offset = (uint64_t)unit * MEM_SLOT_MIN;

	return part[offset / MEM_SLOT_MAX] + offset % MEM_SLOT_MAX;
}

static uint32_t unit_of(const uint8_t *addr)
{
	int which = addr < part[0] || addr >= part[0] + MEM_SLOT_MAX;

	return (uint32_t)((which * MEM_SLOT_MAX + (uint64_t)(addr - part[which])) / MEM_SLOT_MIN);
}

static bool is_free(uint32_t first, uint32_t units)
{
	for (uint32_t i = 0; i < units; i++)
		if (taken[first + i])
			return false;
	return true;
}

/* The first stretch of so many units that is free while the twice as large one is not. */
static uint32_t model_find(uint32_t units)
{
	uint32_t most = MEM_SLOT_MAX / MEM_SLOT_MIN;

	for (uint32_t at = 0; at < UNITS; at += units)
		if (is_free(at, units) &&
		    (units == most || !is_free(at / (2 * units) * 2 * units, 2 * units)))
			return at;
	return UNITS;
}

static uint32_t model_take(uint64_t bytes)
{
	uint32_t units = 1, at = UNITS;

	while ((uint64_t)units * MEM_SLOT_MIN < bytes)
		units *= 2;
	for (uint32_t from = units; from <= MEM_SLOT_MAX / MEM_SLOT_MIN && at == UNITS; from *= 2)
		at = model_find(from);
	for (uint32_t i = 0; i < units && at < UNITS; i++)
		taken[at + i] = true;
	return at;
}

static void model_give(uint32_t at, uint64_t bytes)
{
	uint64_t units = 1;

	while (units * MEM_SLOT_MIN < bytes)
		units *= 2;
	for (uint64_t i = 0; i < units; i++)
		taken[at + i] = false;
}

#define SLOTS 400

static void slots_split_and_merge(void **state)
{
	static struct {
		uint8_t *addr;
		uint64_t bytes;
	} slots[SLOTS];
	uint32_t count = 0, full = 0;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 4);
	for (int i = 0; i < 6000; i++) {
		if (count < SLOTS && rng_below(&rng, 100) < (i / 1000 % 2 ? 30 : 70)) {
			uint64_t bytes = 1 + rng_below(&rng, MEM_SLOT_MIN << rng_below(&rng, 11));
			uint8_t *addr = take(NULL, bytes);
			uint32_t at = model_take(bytes);

			if (at == UNITS) {
				assert_null(addr);
				full++;
				continue;
			}
			assert_ptr_equal(addr, unit_addr(at));
			slots[count].addr = addr;
			slots[count++].bytes = bytes;
		} else if (count) {
			uint32_t k = (uint32_t)rng_below(&rng, count);

			mem_staging_give(pool, slots[k].addr, slots[k].bytes, NULL);
			model_give(unit_of(slots[k].addr), slots[k].bytes);
			slots[k] = slots[--count];
		}
	}
	assert_true(full > 10);
	while (count--)
		mem_staging_give(pool, slots[count].addr, slots[count].bytes, NULL);
}

static void nobody_holds_more_than_half(void **state)
{
	struct mem_stager one, two;
	void *a, *b;

	(void)state;
	mem_stager_init(&one, pool);
	mem_stager_init(&two, pool);
	a = take(&one, MEM_SLOT_MAX);
	assert_ptr_equal(a, part[0]);
	assert_int_equal(mem_stager_held(&one), HALF);
	assert_null(take(&one, 1));
	b = take(&two, MEM_SLOT_MAX - MEM_SLOT_MIN + 1); /* counted as the slot it is */
	assert_ptr_equal(b, part[1]);
	assert_null(take(&two, 1));
	assert_null(take(NULL, 1));
	mem_staging_give(pool, a, MEM_SLOT_MAX, &one);
	assert_int_equal(mem_stager_held(&one), 0);
	assert_null(take(&two, 1));
	a = take(&one, 1);
	assert_non_null(a);
	mem_staging_give(pool, a, 1, &one);
	mem_staging_give(pool, b, MEM_SLOT_MAX, &two);
	assert_null(take(NULL, MEM_SLOT_MAX + 1ull));
}

/* All of the pool, in two slots. */
static void fill_pool(void *slots[2])
{
	slots[0] = take(NULL, MEM_SLOT_MAX);
	slots[1] = take(NULL, MEM_SLOT_MAX);
	assert_non_null(slots[0]);
	assert_non_null(slots[1]);
}

/* He gets nothing and stands in line; fresh: he did not before. */
static void line_up(struct mem_stager *stager, uint64_t bytes, bool patient, bool fresh)
{
	bool lined = !fresh;

	assert_null(mem_staging_take(pool, bytes, stager, patient, &lined));
	assert_int_equal(lined, fresh);
}

static void give_max(void *slot, struct mem_stager *stager)
{
	mem_staging_give(pool, slot, MEM_SLOT_MAX, stager);
}

static void the_line_is_served_in_its_order(void **state)
{
	struct mem_stager one, two, three;
	void *slots[2], *slot;

	(void)state;
	mem_stager_init(&one, pool);
	mem_stager_init(&two, pool);
	mem_stager_init(&three, pool);
	fill_pool(slots);
	assert_false(mem_staging_short(pool, NULL));
	assert_null(take(&one, 1));
	assert_false(mem_staging_short(pool, NULL)); /* he did not want to wait */
	line_up(&one, 1, false, true);
	line_up(&two, 1, false, true);
	line_up(&one, 1, false, false); /* keeps his place */
	line_up(&three, 1, false, true);
	assert_true(mem_staging_short(pool, NULL));
	assert_null(mem_staging_offer(pool)); /* nothing to be had */
	give_max(slots[0], NULL);
	assert_ptr_equal(mem_staging_offer(pool), &one);
	assert_ptr_equal(mem_staging_offer(pool), &two);
	slot = take(&one, MEM_SLOT_MAX);
	assert_non_null(slot);
	line_up(&two, 1, false, true); /* came too late: behind the third now */
	assert_null(mem_staging_offer(pool));
	give_max(slots[1], NULL);
	assert_ptr_equal(mem_staging_offer(pool), &three);
	assert_ptr_equal(mem_staging_offer(pool), &two);
	assert_null(mem_staging_offer(pool));
	assert_false(mem_staging_short(pool, NULL));
	give_max(slot, &one);
}

/* The first waits for what is his own, or for more than there is: that is not for the others. */
static void who_cannot_be_served_keeps_nobody_waiting(void **state)
{
	struct mem_stager one, two, three;
	void *slots[2], *own;

	(void)state;
	mem_stager_init(&one, pool);
	mem_stager_init(&two, pool);
	mem_stager_init(&three, pool);
	own = take(&one, MEM_SLOT_MAX);
	slots[0] = take(NULL, MEM_SLOT_MAX / 2);
	slots[1] = take(NULL, MEM_SLOT_MAX / 2);
	line_up(&one, 1, false, true);
	line_up(&two, MEM_SLOT_MAX, false, true);
	line_up(&three, 1, false, true);
	mem_staging_give(pool, slots[0], MEM_SLOT_MAX / 2, NULL);
	assert_ptr_equal(mem_staging_offer(pool), &three);
	assert_null(mem_staging_offer(pool));
	mem_staging_give(pool, slots[1], MEM_SLOT_MAX / 2, NULL);
	assert_ptr_equal(mem_staging_offer(pool), &two);
	assert_null(mem_staging_offer(pool));
	assert_false(mem_staging_short(pool, &two)); /* nothing of others helps the first */
	assert_true(mem_staging_short(pool, &one));
	give_max(own, &one);
	assert_ptr_equal(mem_staging_offer(pool), &one);
	assert_false(mem_staging_short(pool, NULL));
}

static void the_patient_stand_behind_all_others(void **state)
{
	struct mem_stager one, two;
	void *slots[2], *slot;
	bool lined = true;

	(void)state;
	mem_stager_init(&one, pool);
	mem_stager_init(&two, pool);
	fill_pool(slots);
	line_up(&one, 1, true, true);
	assert_false(mem_staging_short(pool, NULL)); /* no reason to take others' bytes back */
	line_up(&two, MEM_SLOT_MAX, false, true);
	assert_true(mem_staging_short(pool, NULL));
	give_max(slots[0], NULL);
	line_up(&one, 1, true, false); /* there is room, for the other one */
	assert_ptr_equal(mem_staging_offer(pool), &two);
	slot = mem_staging_take(pool, 1, &two, true, &lined); /* nobody else is in line */
	assert_non_null(slot);
	assert_true(lined); /* untouched */
	mem_staging_give(pool, slot, 1, &two);
	assert_ptr_equal(mem_staging_offer(pool), &one);
	assert_null(mem_staging_offer(pool));
	give_max(slots[1], NULL);
}

static void patience_may_change_in_the_line(void **state)
{
	struct mem_stager one, two;
	void *slots[2], *slot;
	bool lined;

	(void)state;
	mem_stager_init(&one, pool);
	mem_stager_init(&two, pool);
	fill_pool(slots);
	line_up(&one, 1, true, true);
	line_up(&two, 1, true, true);
	line_up(&two, 1, false, false);
	assert_true(mem_staging_short(pool, NULL));
	line_up(&two, 1, true, false); /* behind the first again */
	assert_false(mem_staging_short(pool, NULL));
	line_up(&two, 1, false, false);
	line_up(&one, 1, false, false);
	give_max(slots[0], NULL);
	assert_ptr_equal(mem_staging_offer(pool), &two);
	assert_ptr_equal(mem_staging_offer(pool), &one);
	give_max(slots[1], NULL);
	/* Who stands in line alone does not stand in his own way. */
	fill_pool(slots);
	line_up(&one, 1, false, true);
	give_max(slots[0], NULL);
	slot = mem_staging_take(pool, 1, &one, true, &lined);
	assert_non_null(slot);
	mem_staging_give(pool, slot, 1, &one);
	assert_ptr_equal(mem_staging_offer(pool), &one);
	give_max(slots[1], NULL);
}

static void a_pool_lives_while_slots_are_out(void **state)
{
	void *slot = take(NULL, MEM_SLOT_MAX), *again;

	(void)state;
	memset(slot, 1, MEM_SLOT_MAX);
	mem_staging_stop();
	assert_ptr_equal(mem_staging_get(MEM_KIND_TEST, 0, MEM_OUT), pool);
	assert_null(mem_staging_get(MEM_KIND_TEST, 0, MEM_IN));
	assert_int_equal(mem_staging_open(&mem_slow, 0), TCPX_OK);
	assert_ptr_equal(mem_staging_get(MEM_KIND_TEST, 0, MEM_OUT), pool);
	assert_non_null(mem_staging_get(MEM_KIND_TEST, 0, MEM_IN));
	again = take(NULL, MEM_SLOT_MAX);
	assert_ptr_not_equal(again, slot);
	give_max(again, NULL);
	give_max(slot, NULL);
}

#define THREADS 6
#define ROUNDS 2000

struct customer {
	struct mem_stager stager;
	sem_t turn;
	pthread_t thread;
	unsigned number;
};

static void give_and_offer(void *slot, uint64_t bytes, struct mem_stager *stager)
{
	mem_staging_give(pool, slot, bytes, stager);
	while ((stager = mem_staging_offer(pool)))
		sem_post(&((struct customer *)stager)->turn);
}

/* Waits for nothing but his turn: one that is forgotten never ends. */
static void *customer_run(void *arg)
{
	struct customer *me = arg;
	struct rng rng;

	rng_seed(&rng, me->number);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t bytes = 1 + rng_below(&rng, MEM_SLOT_MAX >> rng_below(&rng, 3));
		bool patient = rng_one_in(&rng, 3), lined = false;
		uint8_t *slot;

		while (!(slot = mem_staging_take(pool, bytes, &me->stager, patient, &lined)))
			while (sem_wait(&me->turn))
				;
		slot[0] = slot[bytes - 1] = (uint8_t)me->number;
		if (rng_one_in(&rng, 8))
			sched_yield();
		if (slot[0] != (uint8_t)me->number || slot[bytes - 1] != (uint8_t)me->number)
			abort();
		give_and_offer(slot, bytes, &me->stager);
	}
	return NULL;
}

static void nobody_is_forgotten_in_the_line(void **state)
{
	static struct customer customers[THREADS];

	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		customers[i].number = i;
		mem_stager_init(&customers[i].stager, pool);
		assert_int_equal(sem_init(&customers[i].turn, 0, 0), 0);
		assert_int_equal(
			pthread_create(&customers[i].thread, NULL, customer_run, &customers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(customers[i].thread, NULL), 0);
		sem_destroy(&customers[i].turn);
		assert_int_equal(mem_stager_held(&customers[i].stager), 0);
	}
	assert_false(mem_staging_short(pool, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_split_and_merge),
		cmocka_unit_test(nobody_holds_more_than_half),
		cmocka_unit_test(the_line_is_served_in_its_order),
		cmocka_unit_test(who_cannot_be_served_keeps_nobody_waiting),
		cmocka_unit_test(the_patient_stand_behind_all_others),
		cmocka_unit_test(patience_may_change_in_the_line),
		cmocka_unit_test(a_pool_lives_while_slots_are_out),
		cmocka_unit_test(nobody_is_forgotten_in_the_line),
	};

	setenv("TCPX_STAGING_BYTES", "8M", 1); /* read once, at the first call */
	return cmocka_run_group_tests(tests, open_pool, close_pool);
}
