/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of staging memory that grow: open with the first part, whole later, smaller if memory is
 * short, and stopped at any time. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "mem/staging.h"
#include "parts/slow.h"

#define PART MEM_SLOT_MAX /* bytes of a part: one slot of the largest size */
#define PARTS 8
#define ALL_PARTS (2 * PARTS) /* of both pools */

/* Allocations wait until they are allowed; the given one fails. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned allowed, begun, failing, grown;
static int living;

static void *gated_alloc(size_t bytes, uint32_t device)
{
	unsigned mine;
	void *slot = NULL;

	assert_int_equal(bytes, PART);
	pthread_mutex_lock(&lock);
	mine = ++begun;
	pthread_cond_broadcast(&changed);
	while (mine > allowed)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	if (mine == failing)
		error_set(TCPX_ERR_NO_MEMORY, ENOMEM, "allocation %u", mine);
	else
		slot = mem_slow.slot_alloc(bytes, device);
	pthread_mutex_lock(&lock);
	living += slot != NULL;
	pthread_mutex_unlock(&lock);
	return slot;
}

static void gated_free(void *slot, size_t bytes, uint32_t device)
{
	assert_int_equal(bytes, PART);
	pthread_mutex_lock(&lock);
	living--;
	pthread_mutex_unlock(&lock);
	mem_slow.slot_free(slot, bytes, device);
}

static void pool_has_grown(struct mem_staging *pool)
{
	assert_non_null(pool);
	pthread_mutex_lock(&lock);
	grown++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void allow(unsigned allocations)
{
	pthread_mutex_lock(&lock);
	allowed = allocations;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* Waits until so many allocations have begun, and so many parts were added later. */
static void await(unsigned begins, unsigned growths)
{
	pthread_mutex_lock(&lock);
	while (begun < begins || grown < growths)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* The number of pauses that the thread has begun, and how many of them may end. */
static unsigned pauses, let;

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	unsigned mine;

	(void)time;
	(void)left;
	pthread_mutex_lock(&lock);
	mine = ++pauses;
	pthread_cond_broadcast(&changed);
	while (mine > let)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Waits until the thread begins its nth pause. Returns the number of allocations begun so far. */
static unsigned pause_await(unsigned nth)
{
	unsigned parts;

	pthread_mutex_lock(&lock);
	while (pauses < nth)
		pthread_cond_wait(&changed, &lock);
	parts = begun;
	pthread_mutex_unlock(&lock);
	return parts;
}

static void pauses_let(unsigned count)
{
	pthread_mutex_lock(&lock);
	let = count;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static struct mem_kind gated;

static struct mem_staging *pool_of(enum mem_direction direction)
{
	return mem_staging_get(MEM_KIND_TEST, 0, direction);
}

static int gate_quiet(int64_t quiet_ns)
{
	atomic_store(&mem_staging_quiet_ns, quiet_ns);
	gated = mem_slow;
	gated.slot_alloc = gated_alloc;
	gated.slot_free = gated_free;
	begun = grown = failing = pauses = let = 0;
	allowed = 2;
	atomic_store(&mem_staging_grown, pool_has_grown);
	return mem_staging_open(&gated, 0) == TCPX_OK ? 0 : -1;
}

static int gate(void **state)
{
	(void)state;
	return gate_quiet(0);
}

static int ungate(void **state)
{
	(void)state;
	allow(ALL_PARTS);
	mem_staging_stop();
	return pool_of(MEM_OUT) || living ? -1 : 0;
}

static void first_part_serves_until_the_others_come(void **state)
{
	void *slots[PARTS];
	struct mem_stager waits;
	struct mem_staging *pool = pool_of(MEM_OUT);
	bool lined = false;
	int i, k;

	(void)state;
	await(3, 0); /* the third one, by the thread, waits at the gate */
	mem_stager_init(&waits, pool);
	assert_non_null(slots[0] = mem_staging_take(pool, MEM_SLOT_MAX, NULL, false, NULL));
	assert_null(mem_staging_take(pool, 1, &waits, false, &lined));
	assert_true(lined);
	assert_null(mem_staging_offer(pool));
	allow(ALL_PARTS);
	await(ALL_PARTS, ALL_PARTS - 2);
	assert_ptr_equal(mem_staging_offer(pool), &waits);
	for (i = 1; i < PARTS; i++)
		assert_non_null(slots[i] = mem_staging_take(pool, MEM_SLOT_MAX, NULL, false, NULL));
	assert_null(mem_staging_take(pool, 1, NULL, false, NULL));
	for (i = 0; i < PARTS; i++)
		for (k = 0; k < i; k++)
			assert_true(labs((char *)slots[i] - (char *)slots[k]) >= MEM_SLOT_MAX);
	for (i = 0; i < PARTS; i++) { /* the only free one is the one that came back */
		mem_staging_give(pool, slots[i], MEM_SLOT_MAX, NULL);
		assert_ptr_equal(mem_staging_take(pool, MEM_SLOT_MAX, NULL, false, NULL), slots[i]);
	}
	/* In any order; all of it is free afterwards, and taken in the same order again. */
	for (i = 0; i < PARTS; i++)
		mem_staging_give(pool, slots[(i * 3 + 1) % PARTS], MEM_SLOT_MAX, NULL);
	assert_int_equal(mem_staging_used(pool), 0);
	for (i = 0; i < PARTS; i++)
		assert_ptr_equal(mem_staging_take(pool, MEM_SLOT_MAX, NULL, false, NULL), slots[i]);
	for (i = 0; i < PARTS; i++)
		mem_staging_give(pool, slots[i], MEM_SLOT_MAX, NULL);
}

static void growth_that_fails_leaves_a_smaller_pool(void **state)
{
	struct mem_staging *in = pool_of(MEM_IN);
	struct mem_stager client, other;
	bool lined = false;
	void *slot;

	(void)state;
	await(3, 0); /* the second part of the pool to send */
	failing = 4; /* that of the pool to receive */
	allow(ALL_PARTS);
	await(2 + PARTS, PARTS - 1); /* the pool to send is whole */
	mem_stager_init(&client, in);
	mem_stager_init(&other, in);
	/* Only one client at a time gets a slot, but it may be the largest. */
	assert_non_null(slot = mem_staging_take(in, MEM_SLOT_MAX, &client, false, NULL));
	assert_null(mem_staging_take(in, 1, &client, false, NULL));
	assert_null(mem_staging_take(in, MEM_SLOT_MAX, &other, false, &lined));
	mem_staging_give(in, slot, MEM_SLOT_MAX, &client);
	assert_ptr_equal(mem_staging_offer(in), &other);
	assert_non_null(slot = mem_staging_take(in, MEM_SLOT_MAX, &other, false, NULL));
	mem_staging_give(in, slot, MEM_SLOT_MAX, &other);
	/* The next registration does not try again. */
	assert_int_equal(mem_staging_open(&gated, 0), TCPX_OK);
	mem_staging_stop();
	assert_int_equal(begun, 2 + PARTS);
	assert_int_equal(living, 0);
}

static int gate_never_quiet(void **state)
{
	(void)state;
	return gate_quiet(3600 * CLOCK_S_NS);
}

/* The thread adds no part while memory is being registered, but waits only a limited time. */
static void registrations_come_first(void **state)
{
	(void)state;
	allow(ALL_PARTS);
	for (unsigned i = 1; i <= 10; i++) {
		assert_int_equal(pause_await(i), 2); /* only the first part of each pool */
		pauses_let(i);
	}
	assert_int_equal(pause_await(11), 3);
	atomic_store(&mem_staging_quiet_ns, 0);
	pauses_let(11);
	await(ALL_PARTS, ALL_PARTS - 2);
	assert_int_equal(pause_await(0), ALL_PARTS);
	assert_int_equal(pauses, 11);
}

static _Atomic bool stopped;

static void *stop_main(void *arg)
{
	(void)arg;
	mem_staging_stop();
	atomic_store(&stopped, true);
	allow(ALL_PARTS);
	return NULL;
}

/* Stops the pools while a part is allocated, and opens them again. */
static void stop_waits_for_the_part_and_frees_all(void **state)
{
	pthread_t stopper;

	(void)state;
	await(3, 0);
	assert_int_equal(pthread_create(&stopper, NULL, stop_main, NULL), 0);
	pthread_mutex_lock(&lock);
	while (!atomic_load(&stopped)) {
		allowed = begun; /* one by one, until the thread is told to stop */
		pthread_cond_broadcast(&changed);
		pthread_cond_wait(&changed, &lock);
	}
	pthread_mutex_unlock(&lock);
	pthread_join(stopper, NULL);
	assert_int_equal(living, 0);
	assert_null(pool_of(MEM_OUT));
	begun = grown = 0;
	assert_int_equal(mem_staging_open(&gated, 0), TCPX_OK);
	await(ALL_PARTS, ALL_PARTS - 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(first_part_serves_until_the_others_come, gate,
						ungate),
		cmocka_unit_test_setup_teardown(growth_that_fails_leaves_a_smaller_pool, gate,
						ungate),
		cmocka_unit_test_setup_teardown(registrations_come_first, gate_never_quiet, ungate),
		cmocka_unit_test_setup_teardown(stop_waits_for_the_part_and_frees_all, gate,
						ungate),
	};

	setenv("TCPX_STAGING_BYTES", "32M", 1); /* read once, at the first call */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
