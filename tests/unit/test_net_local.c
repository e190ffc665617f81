/* SPDX-License-Identifier: Apache-2.0 */
/* Same-host channels: a peer that lies about cursors and flags, stray bells, idleness. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/rng.h"
#include "net/local/local_priv.h"
#include "net_pair.h"

#define RING 65536u

static struct local_chan *inside(struct net_chan *chan)
{
	return (struct local_chan *)chan;
}

/* A channel that met a lie is dead both ways, for good, and says so to whoever sleeps. */
static void assert_dead(struct pair *pair)
{
	uint32_t events;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(try_recv(pair->a, 1), TCPX_ERR_PROTOCOL);
		assert_int_equal(try_send(pair->a, 1), TCPX_ERR_PROTOCOL);
	}
	assert_int_equal(pair->a->ops->arm(pair->a, 1, 1, &events), 1);
	pair_close(pair);
}

/* 1000 bytes under way from b to a, 300 of them read. */
static struct pair half_read(void)
{
	struct pair pair;

	pair_ring(&pair, RING);
	assert_int_equal(try_send(pair.b, 1000), TCPX_OK);
	assert_int_equal(try_recv(pair.a, 300), TCPX_OK);
	return pair;
}

static void lying_head_is_refused(void **state)
{
	static const int64_t lies[] = {-1, -700, -701, -1001, RING + 1, INT64_MAX, INT64_MIN};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct pair pair = half_read();

		/* a takes what it knows of before it looks at the cursor again */
		atomic_fetch_add(&inside(pair.a)->in->head, (uint64_t)lies[i]);
		assert_int_equal(try_recv(pair.a, 700), TCPX_OK);
		assert_int_equal(try_recv(pair.a, 1), TCPX_ERR_PROTOCOL);
		assert_dead(&pair);
	}
}

static void full_ring_is_no_lie(void **state)
{
	struct pair pair = half_read();

	(void)state;
	/* Junk, but in bounds: the peer may send junk. */
	atomic_fetch_add(&inside(pair.a)->in->head, RING - 700);
	assert_int_equal(try_recv(pair.a, 700), TCPX_OK);
	assert_int_equal(try_recv(pair.a, RING), TCPX_OK);
	assert_int_equal(try_recv(pair.a, 1), TCPX_IN_PROGRESS);
	pair_close(&pair);
}

static void lying_tail_is_refused(void **state)
{
	static const int64_t lies[] = {-1, -300, -301, 701, RING, INT64_MAX, INT64_MIN};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct pair pair;

		pair_ring(&pair, RING);
		assert_int_equal(try_send(pair.a, 1000), TCPX_OK);
		assert_int_equal(try_recv(pair.b, 300), TCPX_OK);
		assert_int_equal(try_send(pair.a, RING), TCPX_OK);
		assert_int_equal(try_send(pair.a, 1), TCPX_IN_PROGRESS);
		atomic_store(&inside(pair.a)->out->tail,
			     300 + (uint64_t)(lies[i] == 701 ? RING + 1 : lies[i]));
		if (lies[i] == RING) /* all of it read: that is no lie */
			assert_int_equal(try_send(pair.a, 1), TCPX_OK);
		else
			assert_int_equal(try_send(pair.a, 1), TCPX_ERR_PROTOCOL);
		if (lies[i] == RING)
			pair_close(&pair);
		else
			assert_dead(&pair);
	}
}

/* Whatever lies in the shared header, nothing outside of the mapping is touched (a sanitizer or a
 * fault tells) and every call comes back. */
static void random_headers_break_nothing(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 99);
	for (int i = 0; i < 3000; i++) {
		struct pair pair;
		struct local_direction *lane;

		pair_ring(&pair, LOCAL_RING_MIN);
		lane = inside(pair.a)->in;
		if (rng_one_in(&rng, 2))
			lane = inside(pair.a)->out;
		for (int step = 0; step < 20; step++) {
			uint64_t value = rng_one_in(&rng, 2) ? rng_u64(&rng)
							     : rng_below(&rng, 3 * LOCAL_RING_MIN);
			uint32_t events;

			switch (rng_below(&rng, 6)) {
			case 0:
				atomic_store(&lane->head, value);
				break;
			case 1:
				atomic_store(&lane->tail, value);
				break;
			case 2:
				atomic_store(&lane->tail_wait, (uint32_t)value);
				break;
			case 3:
				atomic_store(&lane->head_wait, (uint32_t)value);
				break;
			default:
				try_send(pair.a, 1 + rng_below(&rng, 8000));
				try_recv(pair.a, 1 + rng_below(&rng, 8000));
				pair.a->ops->arm(pair.a, 1, 1, &events);
				pair.a->ops->trim(pair.a);
			}
		}
		pair_close(&pair);
	}
}

/* A flag that says "left" without having left must not keep us awake for ever. */
static void false_goodbye_is_a_goodbye(void **state)
{
	struct pair pair = half_read();

	(void)state;
	atomic_store(&inside(pair.a)->in->head_closed, 1);
	assert_int_equal(try_recv(pair.a, 700), TCPX_OK);
	assert_int_equal(try_recv(pair.a, 1), TCPX_ERR_PEER_CLOSED);
	pair_close(&pair);
}

/* Two threads sleep on one side; a flood of bells for one must not swallow the other's. */
static void bells_flood_is_survived(void **state)
{
	struct pair pair;
	uint32_t events;

	(void)state;
	pair_ring(&pair, RING);
	for (int i = 0; i < 5000; i++)
		if (send(pair.b->ops->fd(pair.b), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
	assert_int_equal(try_recv(pair.a, 1), TCPX_IN_PROGRESS);
	/* At worst a few rounds of "need not sleep", then quiet. */
	atomic_store(&inside(pair.a)->bell.owed, 1);
	for (int i = 0; pair.a->ops->arm(pair.a, 1, 0, &events); i++)
		assert_true(i < 1000);
	assert_int_equal(try_send(pair.b, 1), TCPX_OK);
	assert_int_equal(try_recv(pair.a, 1), TCPX_OK);
	pair_close(&pair);
}

/* A bell for an owner who has not come back keeps the other one awake, until he says that he does
 * not wait any more. */
static void given_up_direction_lets_the_other_sleep(void **state)
{
	struct pair pair;
	uint32_t events;

	(void)state;
	pair_ring(&pair, RING);
	assert_int_equal(try_send(pair.a, RING), TCPX_OK);
	assert_int_equal(pair.a->ops->arm(pair.a, 0, 1, &events), 0);
	assert_int_equal(try_recv(pair.b, RING), TCPX_OK); /* room: it rings */
	assert_int_equal(try_recv(pair.a, 1), TCPX_IN_PROGRESS);
	atomic_store(&inside(pair.a)->bell.owed, 1);
	for (int i = 0; i < 10; i++)
		assert_int_equal(pair.a->ops->arm(pair.a, 1, 0, &events), 1);
	assert_int_equal(pair.a->ops->arm(pair.a, 0, -1, &events), 0);
	assert_int_equal(events, 0);
	assert_int_equal(pair.a->ops->arm(pair.a, 1, 0, &events), 0);
	assert_int_equal(events, EPOLLIN);
	pair_close(&pair);
}

/* Pages of the ring that are in memory. */
static size_t resident(struct net_chan *chan)
{
	struct local_map *map = inside(chan)->map;
	static unsigned char pages[1 << 16];
	size_t count = 0;

	assert_int_equal(mincore(map->base, map->bytes, pages), 0);
	for (size_t i = 0; i < map->bytes / 4096; i++)
		count += pages[i] & 1;
	return count * 4096;
}

static void idle_channel_gives_memory_back(void **state)
{
	enum { BIG = 4 << 20 };
	uint8_t *buf = calloc(1, BIG);
	struct pair pair;
	int epa, epb;

	(void)state;
	assert_non_null(buf);
	pair_ring(&pair, BIG);
	epa = chan_epoll(pair.a);
	epb = chan_epoll(pair.b);
	assert_true(resident(pair.a) <= 64 << 10);
	assert_int_equal(chan_move_all(pair.a, epa, 1, buf, BIG), TCPX_OK);
	pair.a->ops->trim(pair.a); /* unread: stays */
	assert_true(resident(pair.a) >= BIG);
	for (int i = 0; i < BIG; i++)
		buf[i] = (uint8_t)(i % 251);
	assert_int_equal(chan_move_all(pair.b, epb, 0, buf, BIG), TCPX_OK);
	assert_int_equal(buf[BIG - 1], 0);
	pair.b->ops->trim(pair.b); /* its own ring was never used; a's is a's to give */
	assert_true(resident(pair.a) >= BIG);
	pair.a->ops->trim(pair.a);
	assert_true(resident(pair.a) <= 64 << 10);
	for (int i = 0; i < BIG; i++)
		buf[i] = (uint8_t)(i % 251);
	assert_int_equal(chan_move_all(pair.a, epa, 1, buf, BIG), TCPX_OK);
	memset(buf, 0, BIG);
	assert_int_equal(chan_move_all(pair.b, epb, 0, buf, BIG), TCPX_OK);
	for (int i = 0; i < BIG; i++)
		assert_int_equal(buf[i], (uint8_t)(i % 251));
	close(epa);
	close(epb);
	free(buf);
	pair_close(&pair);
}

/* Odd sizes and addresses through both copies, hot and cold destinations. */
static void copies_are_exact(void **state)
{
	enum { MOST = 300000 };
	uint8_t *src = malloc(MOST + 64), *dst = malloc(MOST + 128), *want = malloc(MOST + 128);
	struct local_heat heat = {{0}};
	struct rng rng;

	(void)state;
	assert_true(src && dst && want);
	rng_seed(&rng, 5);
	rng_fill(&rng, src, MOST + 64);
	for (int i = 0; i < 300; i++) {
		size_t n = rng_below(&rng, rng_one_in(&rng, 2) ? 5000 : MOST);
		size_t from = rng_below(&rng, 64), to = rng_below(&rng, 64);

		memset(dst, 0xee, MOST + 128);
		memset(want, 0xee, MOST + 128);
		memcpy(want + to, src + from, n);
		if (i & 1)
			local_copy_in(dst + to, src + from, n);
		else
			local_copy_out(&heat, dst + to, src + from, n);
		if (i % 3 == 0)
			memset(&heat, 0, sizeof(heat));
		assert_memory_equal(dst, want, MOST + 128);
	}
	free(src);
	free(dst);
	free(want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lying_head_is_refused),
		cmocka_unit_test(full_ring_is_no_lie),
		cmocka_unit_test(lying_tail_is_refused),
		cmocka_unit_test(random_headers_break_nothing),
		cmocka_unit_test(false_goodbye_is_a_goodbye),
		cmocka_unit_test(bells_flood_is_survived),
		cmocka_unit_test(given_up_direction_lets_the_other_sleep),
		cmocka_unit_test(idle_channel_gives_memory_back),
		cmocka_unit_test(copies_are_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
