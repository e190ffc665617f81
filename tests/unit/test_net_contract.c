/* SPDX-License-Identifier: Apache-2.0 */
/* The transport contract: one suite over every transport of the registry, bare and within each
 * filter, and over the same-host transport with rings of several sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "net_pair.h"

struct flavour {
	const char *name;
	void (*make)(struct pair *pair); /* NULL: of the transport */
	const struct transport_ops *transport;
	const char *filters;
	size_t bytes;	 /* of the bulk case, each way */
	unsigned rounds; /* of the ping-pong case */
};

static void make_local_small(struct pair *pair)
{
	pair_ring(pair, 4096); /* full and empty all the time: as many sleeps as can be */
}

static void make_local(struct pair *pair)
{
	pair_ring(pair, 256u << 10);
}

static void make_dialled(struct pair *pair)
{
	pair_dialled(pair, 64u << 10);
}

#if defined(__SANITIZE_THREAD__)
#define SHARE(n) ((n) / 8)
#else
#define SHARE(n) (n)
#endif
#define FAULT "fault:seed=7:short=30:again=20"

/* Each transport of the registry, in every row. */
static const struct flavour of_registry[] = {
	{.name = "", .bytes = 24u << 20, .rounds = 10000},
	{.name = "+check", .filters = "check", .bytes = 8u << 20, .rounds = 500},
	{.name = "+fault", .filters = FAULT, .bytes = 2u << 20, .rounds = 500},
	{"+fault+check", NULL, NULL, "check," FAULT ",check", 2u << 20, 500},
};

static const struct flavour flavours[] = {
	{"ring", make_local, NULL, NULL, 64u << 20, 100000},
	{"small ring", make_local_small, NULL, NULL, 4u << 20, 10000},
	{"dialled ring", make_dialled, NULL, NULL, 16u << 20, 10000},
	{"ring+check", make_local, NULL, "check", 8u << 20, 500},
	{"small ring+fault", make_local_small, NULL, FAULT, 1u << 20, 500},
	{"ring+fault+check", make_local, NULL, "check," FAULT ",check", 2u << 20, 500},
};

static struct pair pair_new(const struct flavour *flavour)
{
	struct pair pair;

	if (flavour->make)
		flavour->make(&pair);
	else
		pair_of(flavour->transport, &pair);
	pair_filter(&pair, flavour->filters);
	return pair;
}

/* The byte at a position, by a table whose length is prime to every buffer's. */
#define PATTERN 65521u
static uint8_t pattern[PATTERN];

static int pattern_check(uint64_t at, const uint8_t *bytes, size_t len, int salt)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != (uint8_t)(pattern[(at + i) % PATTERN] + salt))
			return 0;
	return 1;
}

static void pattern_fill(uint64_t at, uint8_t *bytes, size_t len, int salt)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(pattern[(at + i) % PATTERN] + salt);
}

#define STREAM_BUF (96u << 10)

struct stream {
	struct net_chan *chan;
	size_t bytes;
	int salt, seed, to_peer;
	tcpx_status status;
	int wrong;
};

/* Cuts buf into a random shape; some entries may be empty. */
static int random_shape(struct rng *rng, uint8_t *buf, size_t len, struct iovec *iov)
{
	size_t most = 1 + rng_below(rng, rng_one_in(rng, 2) ? 64 : len);
	int n = 0;

	while (len && n < 40) {
		size_t part = 1 + rng_below(rng, most);

		if (part > len)
			part = len;
		iov[n++] = (struct iovec){buf, part};
		buf += part;
		len -= part;
	}
	return n;
}

static void *stream_main(void *arg)
{
	struct stream *stream = arg;
	struct net_chan *chan = stream->chan;
	uint8_t *buf = malloc(STREAM_BUF);
	int epfd = chan_epoll(chan);
	struct iovec iov[40];
	struct rng rng;
	size_t at = 0;

	MUST(buf);
	rng_seed(&rng, (uint64_t)stream->seed);
	while (at < stream->bytes) {
		size_t len = stream->bytes - at < STREAM_BUF ? stream->bytes - at : STREAM_BUF;
		int n = random_shape(&rng, buf, 1 + rng_below(&rng, len), iov);
		size_t moved = 0, left;

		if (stream->to_peer)
			for (int i = 0; i < n; i++)
				pattern_fill(at + (size_t)((uint8_t *)iov[i].iov_base - buf),
					     iov[i].iov_base, iov[i].iov_len, stream->salt);
		stream->status = stream->to_peer ? chan->ops->send(chan, iov, n, &moved)
						 : chan->ops->recv(chan, iov, n, &moved);
		if (stream->status == TCPX_IN_PROGRESS) {
			chan_sleep(chan, epfd, !stream->to_peer, stream->to_peer);
			continue;
		}
		if (stream->status)
			break;
		left = moved;
		for (int i = 0; left && !stream->to_peer; i++) {
			size_t part = left < iov[i].iov_len ? left : iov[i].iov_len;

			stream->wrong |= !pattern_check(at + (moved - left), iov[i].iov_base, part,
							stream->salt);
			left -= part;
		}
		at += moved;
	}
	close(epfd);
	free(buf);
	return NULL;
}

static void bytes_are_exact_both_ways(void **state)
{
	const struct flavour *flavour = *state;
	struct pair pair = pair_new(flavour);
	size_t bytes = SHARE(flavour->bytes);
	struct stream streams[4] = {
		{pair.a, bytes, 1, 11, 1, 0, 0},
		{pair.b, bytes, 1, 12, 0, 0, 0},
		{pair.b, bytes, 2, 13, 1, 0, 0},
		{pair.a, bytes, 2, 14, 0, 0, 0},
	};
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, stream_main, &streams[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(streams[i].status, TCPX_OK);
		assert_int_equal(streams[i].wrong, 0);
	}
	pair_close(&pair);
}

/* Sends without sleeping until nothing goes any more (again-faults come once in a row). */
static size_t fill_up(struct net_chan *chan)
{
	static uint8_t junk[64u << 10];
	struct iovec iov = {junk, sizeof(junk)};
	size_t total = 0, moved = 0;

	for (int refused = 0; refused < 3;) {
		tcpx_status status = chan->ops->send(chan, &iov, 1, &moved);

		if (status == TCPX_OK) {
			total += moved;
			refused = 0;
		} else {
			assert_int_equal(status, TCPX_IN_PROGRESS);
			refused++;
		}
	}
	return total;
}

static void full_and_empty_say_in_progress(void **state)
{
	struct pair pair = pair_new(*state);
	uint8_t byte = 0, *sink = malloc(1u << 20);
	struct iovec iov = {&byte, 1};
	size_t moved = 77, sent;
	int epa = chan_epoll(pair.a), epb = chan_epoll(pair.b);

	assert_non_null(sink);
	assert_int_equal(pair.b->ops->recv(pair.b, &iov, 1, &moved), TCPX_IN_PROGRESS);
	assert_int_equal(pair.b->ops->recv(pair.b, &iov, 1, &moved), TCPX_IN_PROGRESS);
	assert_int_equal(moved, 77);
	sent = fill_up(pair.a);
	assert_true(sent > 0);
	while (sent) {
		size_t part = sent < 1u << 20 ? sent : 1u << 20;

		assert_int_equal(chan_move_all(pair.b, epb, 0, sink, part), TCPX_OK);
		sent -= part;
	}
	assert_int_equal(chan_move_all(pair.a, epa, 1, &byte, 1), TCPX_OK);
	assert_int_equal(chan_move_all(pair.b, epb, 0, &byte, 1), TCPX_OK);
	close(epa);
	close(epb);
	free(sink);
	pair_close(&pair);
}

static void end_comes_after_the_last_byte(void **state)
{
	struct pair pair = pair_new(*state);
	int epa = chan_epoll(pair.a), epb = chan_epoll(pair.b);
	uint8_t out[1000], in[1000];

	pattern_fill(5, out, sizeof(out), 0);
	assert_int_equal(chan_move_all(pair.a, epa, 1, out, sizeof(out)), TCPX_OK);
	pair.a->ops->close(pair.a);
	pair.a = NULL;
	assert_int_equal(chan_move_all(pair.b, epb, 0, in, sizeof(in)), TCPX_OK);
	assert_memory_equal(in, out, sizeof(in));
	for (int i = 0; i < 3; i++) /* sticky */
		assert_int_equal(chan_move_all(pair.b, epb, 0, in, 1), TCPX_ERR_PEER_CLOSED);
	/* Sending to nobody fails too, at the latest when the far kernel has said so. */
	assert_true(chan_move_all(pair.b, epb, 1, out, sizeof(out)) <= TCPX_OK);
	while (chan_move_all(pair.b, epb, 1, out, sizeof(out)) == TCPX_OK)
		;
	assert_true(chan_move_all(pair.b, epb, 1, out, 1) <= TCPX_ERR_CHANNEL_LOST);
	close(epa);
	close(epb);
	pair_close(&pair);
}

static void *blocked_main(void *arg)
{
	struct stream *stream = arg;
	uint8_t *junk = calloc(1, STREAM_BUF);
	int epfd = chan_epoll(stream->chan);

	MUST(junk);
	do
		stream->status =
			chan_move_all(stream->chan, epfd, stream->to_peer, junk, STREAM_BUF);
	while (!stream->status);
	close(epfd);
	free(junk);
	return NULL;
}

static void shutdown_frees_blocked_threads(void **state)
{
	struct pair pair = pair_new(*state);
	struct stream streams[4] = {
		{pair.a, 0, 0, 0, 1, 0, 0},
		{pair.a, 0, 0, 0, 0, 0, 0},
		{pair.b, 0, 0, 0, 1, 0, 0},
		{pair.b, 0, 0, 0, 0, 0, 0},
	};
	pthread_t threads[4];

	/* a: full and, b sending nothing yet, empty. */
	fill_up(pair.a);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, blocked_main, &streams[i]), 0);
	pair.a->ops->shutdown(pair.a);
	pair.a->ops->shutdown(pair.a);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(streams[i].status, TCPX_ERR_DISCONNECTED);
	}
	/* b ends too, both ways. */
	for (int i = 2; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, blocked_main, &streams[i]), 0);
	for (int i = 2; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_true(streams[i].status <= TCPX_ERR_CHANNEL_LOST);
	}
	pair_close(&pair);
}

struct ponger {
	struct net_chan *chan;
	unsigned rounds;
};

static void *pong_main(void *arg)
{
	struct ponger *ponger = arg;
	int epfd = chan_epoll(ponger->chan);
	uint64_t number;

	for (unsigned i = 0; i < ponger->rounds; i++) {
		MUST(!chan_move_all(ponger->chan, epfd, 0, &number, sizeof(number)));
		MUST(number == i);
		MUST(!chan_move_all(ponger->chan, epfd, 1, &number, sizeof(number)));
	}
	close(epfd);
	return NULL;
}

/* Every hop sleeps in epoll; a lost wake-up hangs here (and the test's time limit tells). */
static void no_wake_up_is_lost(void **state)
{
	const struct flavour *flavour = *state;
	struct pair pair = pair_new(flavour);
	unsigned rounds = SHARE(flavour->rounds);
	struct ponger ponger = {pair.b, rounds};
	int epfd = chan_epoll(pair.a);
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, pong_main, &ponger), 0);
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t number = i;

		assert_int_equal(chan_move_all(pair.a, epfd, 1, &number, sizeof(number)), TCPX_OK);
		number = 0;
		assert_int_equal(chan_move_all(pair.a, epfd, 0, &number, sizeof(number)), TCPX_OK);
		assert_int_equal(number, i);
	}
	pthread_join(thread, NULL);
	close(epfd);
	pair_close(&pair);
}

static void mark_delays_the_wake_up_only(void **state)
{
	struct pair pair = pair_new(*state);
	int epa = chan_epoll(pair.a), epb = chan_epoll(pair.b);
	uint8_t bytes[1500] = {0};
	struct iovec iov = {bytes, sizeof(bytes)};
	struct epoll_event event = {0};
	size_t moved = 0, have = 0;
	uint32_t events = 0;

	pair.b->ops->recv_mark(pair.b, 1000);
	assert_int_equal(chan_move_all(pair.a, epa, 1, bytes, 999), TCPX_OK);
	/* Below the mark: no reason to wake, but the bytes may be taken. */
	assert_int_equal(pair.b->ops->arm(pair.b, 1, 0, &events), 0);
	event.events = events;
	assert_int_equal(epoll_ctl(epb, EPOLL_CTL_MOD, pair.b->ops->fd(pair.b), &event), 0);
	assert_int_equal(epoll_wait(epb, &event, 1, 0), 0);
	assert_int_equal(chan_move_all(pair.a, epa, 1, bytes, 1), TCPX_OK);
	assert_int_equal(epoll_wait(epb, &event, 1, -1), 1);
	pair.b->ops->recv_mark(pair.b, 0);
	assert_int_equal(chan_move_all(pair.b, epb, 0, bytes, 1000), TCPX_OK);
	do /* nothing more */
		have += pair.b->ops->recv(pair.b, &iov, 1, &moved) == TCPX_IN_PROGRESS;
	while (have < 3);
	close(epa);
	close(epb);
	pair_close(&pair);
}

static void info_counts_what_is_under_way(void **state)
{
	struct pair pair = pair_new(*state);
	struct net_chan_info info;
	size_t sent = fill_up(pair.a);

	memset(&info, 0xff, sizeof(info));
	pair.a->ops->info(pair.a, &info);
	assert_true(info.unacked_bytes <= sent);
	if (!strcmp(pair.a->ops->name, "tcp"))
		assert_true(info.congestion[0] && memchr(info.congestion, 0, 16));
	else
		assert_int_equal(info.unacked_bytes, sent);
	pair_close(&pair);
}

#define CASES(X)                                                                                   \
	X(bytes_are_exact_both_ways)                                                               \
	X(full_and_empty_say_in_progress)                                                          \
	X(end_comes_after_the_last_byte)                                                           \
	X(shutdown_frees_blocked_threads)                                                          \
	X(no_wake_up_is_lost)                                                                      \
	X(mark_delays_the_wake_up_only)                                                            \
	X(info_counts_what_is_under_way)

/* only: a flavour's name; NULL: any. */
static int run_flavour(const struct flavour *flavour, const char *only)
{
#define CASE(name) cmocka_unit_test_prestate(name, (void *)flavour),
	const struct CMUnitTest tests[] = {CASES(CASE)};

	if (only && strcmp(only, flavour->name))
		return 0;
	return _cmocka_run_group_tests(flavour->name, tests, sizeof(tests) / sizeof(tests[0]), NULL,
				       NULL);
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	const struct transport_ops *transport;
	int failed = 0;
	struct rng rng;

	rng_seed(&rng, 1);
	rng_fill(&rng, pattern, sizeof(pattern));
	for (unsigned at = 0; (transport = net_transport_at(at)); at++) {
		for (size_t i = 0; i < sizeof(of_registry) / sizeof(of_registry[0]); i++) {
			struct flavour flavour = of_registry[i];
			char name[64];

			snprintf(name, sizeof(name), "%s%s", transport->name, flavour.name);
			flavour.name = name;
			flavour.transport = transport;
			failed += run_flavour(&flavour, only);
		}
	}
	for (size_t i = 0; i < sizeof(flavours) / sizeof(flavours[0]); i++)
		failed += run_flavour(&flavours[i], only);
	if (filter_check_breaches()) {
		fprintf(stderr, "contract breaches: %llu\n",
			(unsigned long long)filter_check_breaches());
		failed++;
	}
	return failed != 0;
}
