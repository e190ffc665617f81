/* SPDX-License-Identifier: Apache-2.0 */
/* tcpxemu_stats_wait: a wait for a count ends with the change, and no change is slept through. */
#include "emu_rig.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#define COUNT_WAITERS 3
#define COUNT_ROUNDS 4000
#define COUNT_BESIDE 10000
#define COUNT_COMMS 20

/* A thread that waits for a count of first, then of one more, and says so each time. */
struct waiter {
	pthread_t thread;
	uint64_t (*of)(const struct tcpxemu_stats *stats);
	uint64_t first, rounds;
	sem_t seen;
};

static uint64_t sent(const struct tcpxemu_stats *stats)
{
	return stats->sent_messages;
}

static uint64_t received(const struct tcpxemu_stats *stats)
{
	return stats->received_messages;
}

static uint64_t comms(const struct tcpxemu_stats *stats)
{
	return stats->comms_open;
}

static void await(uint64_t (*of)(const struct tcpxemu_stats *stats), uint64_t count)
{
	struct tcpxemu_stats stats;

	rig.stats(&stats);
	while (of(&stats) != count) {
		struct tcpxemu_stats before = stats;

		rig.stats_wait(&stats);
		CHECK(stats.sent_messages != before.sent_messages ||
		      stats.received_messages != before.received_messages ||
		      stats.comms_open != before.comms_open);
	}
}

static void *waiter_main(void *arg)
{
	struct waiter *waiter = arg;

	for (uint64_t i = 0; i < waiter->rounds; i++) {
		await(waiter->of, waiter->first + i);
		CHECK_EQ(sem_post(&waiter->seen), 0);
	}
	return NULL;
}

static void waiter_start(struct waiter *waiter, uint64_t (*of)(const struct tcpxemu_stats *stats),
			 uint64_t first, uint64_t rounds)
{
	*waiter = (struct waiter){.of = of, .first = first, .rounds = rounds};
	CHECK_EQ(sem_init(&waiter->seen, 0, 0), 0);
	CHECK_EQ(pthread_create(&waiter->thread, NULL, waiter_main, waiter), 0);
}

/* Several at once; each waits for a message that comes when all have seen the one before. */
static void several(void *arg)
{
	uint64_t (*const of[COUNT_WAITERS])(const struct tcpxemu_stats *) = {sent, received,
									     received};
	static struct rig_pair pair;
	struct waiter waiters[COUNT_WAITERS];

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	for (int i = 0; i < COUNT_WAITERS; i++)
		waiter_start(&waiters[i], of[i], 1, COUNT_ROUNDS);
	for (uint64_t k = 0; k < COUNT_ROUNDS; k++) {
		rig_message(&pair, 64);
		for (int i = 0; i < COUNT_WAITERS; i++)
			CHECK_EQ(sem_wait(&waiters[i].seen), 0);
	}
	for (int i = 0; i < COUNT_WAITERS; i++)
		CHECK_EQ(pthread_join(waiters[i].thread, NULL), 0);
	rig_pair_close(&pair);
}

/* ---- a change beside the call ---- */

struct beside {
	struct rig_pair pair;
	_Atomic uint64_t go, here, there; /* rounds that begin, that both are in, that ended */
};

/* Both are awake when a round begins. */
static void meet(_Atomic uint64_t *word, uint64_t round)
{
	for (int i = 1; atomic_load(word) != round; i++)
		if (i % 4096 == 0)
			sched_yield();
}

static void wander(uint64_t steps)
{
	for (volatile uint64_t i = 0; i < steps; i++)
		;
}

static void *beside_main(void *arg)
{
	struct beside *beside = arg;

	for (uint64_t k = 1; k <= COUNT_BESIDE; k++) {
		meet(&beside->go, k);
		atomic_store(&beside->here, k);
		wander(k * 7919 % 20011);
		await(sent, k + 1);
		atomic_store(&beside->there, k);
	}
	return NULL;
}

/* The first call that tests an empty message counts it. The other thread may begin to wait before
 * or after that call, or may just have read the count. */
static void beside(void *arg)
{
	static struct beside beside;
	struct rig_pair *pair = &beside.pair;
	pthread_t thread;

	(void)arg;
	rig_start();
	rig_pair_open(pair, 0, 0, EMU_CUDA);
	rig_message(pair, 64); /* an empty one that begins a comm is not counted */
	CHECK_EQ(pthread_create(&thread, NULL, beside_main, &beside), 0);
	for (uint64_t k = 1; k <= COUNT_BESIDE; k++) {
		void *send, *recv;

		check_alive();
		CHECK_EQ(rig_irecv(pair, 0, 0, &recv), 0);
		CHECK_EQ(rig_isend(pair, 0, 0, &send), 0);
		atomic_store(&beside.go, k);
		meet(&beside.here, k);
		wander(k % 101);
		rig_wait(send);
		meet(&beside.there, k);
		rig_wait(recv);
		CHECK_EQ(rig.net->irecv_consumed(pair->recv, 1, recv), 0);
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	rig_pair_close(pair);
}

/* What has changed since the snapshot is told at once; the bytes of a message are in it, too. */
static void earlier(void *arg)
{
	static struct rig_pair pair;
	struct tcpxemu_stats stats, now;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	rig.stats(&stats);
	CHECK_EQ(stats.comms_open, 2);
	rig_message(&pair, 1000);
	rig.stats_wait(&stats);
	CHECK(stats.sent_messages == 1 && stats.received_messages == 1);
	CHECK(stats.sent_bytes == 1000 && stats.received_bytes == 1000);
	rig_pair_close(&pair);
	rig.stats_wait(&stats);
	rig.stats(&now);
	CHECK(stats.comms_open == 0 && !memcmp(&stats, &now, sizeof(now)));
}

/* Comms that open and close, when nothing is sent. */
static void opened_and_closed(void *arg)
{
	static struct rig_pair pair;
	struct waiter up, down;

	(void)arg;
	rig_start();
	for (int i = 0; i < COUNT_COMMS; i++) {
		waiter_start(&up, comms, 2, 1);
		rig_pair_open(&pair, 0, 0, EMU_CUDA);
		CHECK_EQ(pthread_join(up.thread, NULL), 0);
		waiter_start(&down, comms, 0, 1);
		rig_pair_close(&pair);
		CHECK_EQ(pthread_join(down.thread, NULL), 0);
	}
}

static const struct check_case cases[] = {
	{"several", several},
	{"beside", beside},
	{"earlier", earlier},
	{"opened_and_closed", opened_and_closed},
};

int main(int argc, char **argv)
{
	return check_main(cases, sizeof(cases) / sizeof(*cases), argc > 1 ? argv[1] : NULL, NULL);
}
