/* SPDX-License-Identifier: Apache-2.0 */
/* Loans of same-host channels: who has the memory when, what arrives, producers that lie. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/rng.h"
#include "net/local/local_priv.h"
#include "net_pair.h"

#define RING 65536u
#define PIECE 200000u

static struct local_chan *inside(struct net_chan *chan)
{
	return (struct local_chan *)chan;
}

static const uint8_t secret[LOCAL_SECRET_BYTES] = "0123456789abcde";

/* The way to another process, with this one as the other. */
static void through_kernel(struct local_chan *chan)
{
	struct local_header *header = (struct local_header *)chan->map->base;

	chan->pid = getpid();
	chan->copy = COPY_PEER;
	chan->lend_to = &header->loans[chan->side];
	chan->lend_ok = &header->offer[!chan->side].reads;
	chan->probe_due = 1;
	header->offer[chan->side].addr = (uintptr_t)secret;
	memcpy(header->offer[chan->side].secret, secret, sizeof(secret));
	atomic_store(&header->offer[chan->side].ready, 1);
}

static void pair_kernel(struct pair *pair)
{
	pair_ring(pair, RING);
	through_kernel(inside(pair->a));
	through_kernel(inside(pair->b));
	local_share_probe(inside(pair->a));
	local_share_probe(inside(pair->b));
}

static void pair_any(struct pair *pair, int kernel)
{
	struct net_chan_info info;

	if (kernel)
		pair_kernel(pair);
	else
		pair_dialled(pair, RING);
	pair->a->ops->info(pair->a, &info);
	assert_string_equal(info.copy, kernel ? "one-copy" : "memcpy");
}

static tcpx_status lend(struct net_chan *chan, const void *src, size_t n, size_t *moved)
{
	struct iovec iov = {(void *)src, n};

	*moved = 0;
	return chan->ops->loan->lend(chan, &iov, 1, moved);
}

static tcpx_status take(struct net_chan *chan, void *dst, size_t n, size_t *moved)
{
	struct iovec iov = {dst, n};

	*moved = 0;
	return chan->ops->recv(chan, &iov, 1, moved);
}

static struct net_lent lent(struct net_chan *chan, int back)
{
	struct net_lent out;

	chan->ops->loan->lent(chan, back, &out);
	return out;
}

static uint8_t src[PIECE], dst[PIECE + 100];

static void fill(void)
{
	struct rng rng;

	rng_seed(&rng, 3);
	rng_fill(&rng, src, sizeof(src));
	memset(dst, 0xee, sizeof(dst));
}

/* Nothing counts before it was read, and then all of it; the ring holds none of it. */
static void piece_is_read_in_place(void **state)
{
	(void)state;
	for (int kernel = 0; kernel < 2; kernel++) {
		struct pair pair;
		size_t moved;

		fill();
		pair_any(&pair, kernel);
		assert_int_equal(lend(pair.a, src, PIECE, &moved), TCPX_IN_PROGRESS);
		assert_int_equal(lent(pair.a, 0).pieces, 1);
		assert_int_equal(lent(pair.a, 0).ahead, PIECE);
		src[7] ^= 1;				     /* read later, so seen */
		for (size_t at = 0; at < PIECE; at += moved) /* in parts */
			assert_int_equal(take(pair.b, dst + at, 70001, &moved), TCPX_OK);
		assert_memory_equal(dst, src, PIECE);
		assert_int_equal(dst[PIECE], 0xee);
		assert_false(pair.b->ops->loan->torn(pair.b));
		assert_int_equal(atomic_load(&inside(pair.a)->out->head), 0);
		assert_int_equal(lent(pair.a, 0).pieces, 0);
		assert_int_equal(lend(pair.a, src, PIECE, &moved), TCPX_OK);
		assert_int_equal(moved, PIECE);
		assert_int_equal(lent(pair.a, 0).ahead, 0);
		pair_close(&pair);
	}
}

/* Copied bytes before and behind keep their places; no call returns both kinds. */
static void order_is_kept(void **state)
{
	struct iovec iov[3] = {{"head", 4}, {src, PIECE}, {"tail", 4}};
	size_t moved = 0, all = 0;
	struct pair pair;

	(void)state;
	fill();
	pair_any(&pair, 0);
	assert_int_equal(pair.a->ops->loan->lend(pair.a, iov, 3, &moved), TCPX_OK);
	assert_int_equal(moved, 4);
	assert_int_equal(lent(pair.a, 0).ahead, PIECE + 4);
	assert_int_equal(take(pair.b, dst, sizeof(dst), &moved), TCPX_OK);
	assert_int_equal(moved, 4);
	assert_memory_equal(dst, "head", 4);
	for (; all < PIECE; all += moved)
		assert_int_equal(take(pair.b, dst + all, sizeof(dst) - all, &moved), TCPX_OK);
	assert_int_equal(all, PIECE);
	assert_memory_equal(dst, src, PIECE);
	assert_int_equal(take(pair.b, dst, sizeof(dst), &moved), TCPX_OK);
	assert_int_equal(moved, 4);
	assert_memory_equal(dst, "tail", 4);
	/* the rest is offered again and not looked at, not even by address */
	iov[1].iov_base = iov[2].iov_base = (void *)16;
	assert_int_equal(pair.a->ops->send(pair.a, iov + 1, 2, &moved), TCPX_OK);
	assert_int_equal(moved, PIECE + 4);
	pair_close(&pair);
}

/* Taken back before and in the middle of reading: torn, and never read again. */
static void taken_back_is_torn(void **state)
{
	(void)state;
	for (int kernel = 0; kernel < 2; kernel++) {
		for (size_t read = 0; read < 2; read++) {
			struct pair pair;
			size_t moved, all = 0;

			fill();
			pair_any(&pair, kernel);
			assert_int_equal(lend(pair.a, src, PIECE, &moved), TCPX_IN_PROGRESS);
			if (read) {
				assert_int_equal(take(pair.b, dst, 1000, &moved), TCPX_OK);
				assert_false(pair.b->ops->loan->torn(pair.b));
				all = moved;
			}
			assert_int_equal(lent(pair.a, 1).torn, 1);
			assert_int_equal(lent(pair.a, 1).torn, 0);
			assert_int_equal(lent(pair.a, 0).pieces, 0);
			for (; all < PIECE; all += moved) {
				assert_int_equal(take(pair.b, dst + all, 70001, &moved), TCPX_OK);
				assert_true(pair.b->ops->loan->torn(pair.b));
			}
			assert_int_equal(all, PIECE);
			assert_int_equal(dst[read ? 1000 : 0], 0xee);
			assert_int_equal(lend(pair.a, src, PIECE, &moved), TCPX_OK);
			assert_int_equal(moved, PIECE);
			pair_close(&pair);
		}
	}
}

/* A reader that is inside keeps the memory until it answers; when the channel ended, too. */
static void reader_inside_keeps_it(void **state)
{
	struct pair pair;
	size_t moved;

	(void)state;
	pair_any(&pair, 1);
	assert_int_equal(lend(pair.a, src, PIECE, &moved), TCPX_IN_PROGRESS);
	atomic_store(&inside(pair.b)->borrow->loan[0].state, LOAN_READING);
	assert_int_equal(lent(pair.a, 1).pieces, 1);
	assert_int_equal(lend(pair.a, src, PIECE, &moved), TCPX_IN_PROGRESS);
	pair.a->ops->shutdown(pair.a); /* the process lives: it may still answer */
	assert_int_equal(lent(pair.a, 1).pieces, 1);
	atomic_store(&inside(pair.b)->borrow->loan[0].state, LOAN_OVER);
	assert_int_equal(lent(pair.a, 1).pieces, 0);
	pair_close(&pair);
}

/* Another process' number, which is no process any more. */
static void dead_reader_reads_nothing(void **state)
{
	struct pair pair;
	size_t moved;
	pid_t pid;

	(void)state;
	pair_any(&pair, 1);
	assert_int_equal(lend(pair.a, src, PIECE, &moved), TCPX_IN_PROGRESS);
	atomic_store(&inside(pair.b)->borrow->loan[0].state, LOAN_READING);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(0);
	inside(pair.a)->pid = pid;
	pair.a->ops->shutdown(pair.a);
	while (lent(pair.a, 1).pieces) /* not reaped: it counts as gone all the same */
		sched_yield();
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	pair_close(&pair);
}

/* Memory that is not there: said once at the sender, torn at the receiver, the channel lives. */
static void unmapped_source_is_told(void **state)
{
	uint8_t *hole = mmap(NULL, PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pair pair;
	size_t moved, all;

	(void)state;
	pair_any(&pair, 1);
	assert_int_equal(lend(pair.a, hole, PIECE, &moved), TCPX_IN_PROGRESS);
	for (all = 0; all < PIECE; all += moved) {
		assert_int_equal(take(pair.b, dst, 70001, &moved), TCPX_OK);
		assert_true(pair.b->ops->loan->torn(pair.b));
	}
	assert_int_equal(lend(pair.a, src, PIECE, &moved), TCPX_ERR_INVALID);
	assert_int_equal(lend(pair.a, src, PIECE, &moved), TCPX_OK);
	assert_int_equal(moved, PIECE);
	fill();
	assert_int_equal(lend(pair.a, src, PIECE, &moved), TCPX_IN_PROGRESS);
	for (all = 0; all < PIECE; all += moved)
		assert_int_equal(take(pair.b, dst + all, PIECE, &moved), TCPX_OK);
	assert_memory_equal(dst, src, PIECE);
	munmap(hole, PIECE);
	pair_close(&pair);
}

/* What is read is not the process that was met: the channel ends before a byte counts. */
static void other_process_is_noticed(void **state)
{
	struct pair pair;
	size_t moved;

	(void)state;
	pair_any(&pair, 1);
	inside(pair.b)->peer_secret[3] ^= 1;
	assert_int_equal(lend(pair.a, src, PIECE, &moved), TCPX_IN_PROGRESS);
	assert_int_equal(take(pair.b, dst, PIECE, &moved), TCPX_ERR_PEER_RESET);
	assert_int_equal(lent(pair.a, 1).torn, 1); /* not left as being read */
	pair_close(&pair);
}

/* An offer whose secret is not where it says is not taken: nothing is borrowed, nothing is lent. */
static void wrong_offer_is_not_taken(void **state)
{
	struct local_header *header;
	struct net_chan_info info;
	struct pair pair;
	size_t moved;

	(void)state;
	pair_ring(&pair, RING);
	header = (struct local_header *)inside(pair.a)->map->base;
	through_kernel(inside(pair.a));
	header->offer[0].secret[0] ^= 1;
	through_kernel(inside(pair.b));
	local_share_probe(inside(pair.b));
	assert_null(inside(pair.b)->borrow);
	pair.a->ops->info(pair.a, &info);
	assert_string_equal(info.copy, "ring");
	assert_int_equal(lend(pair.a, src, 40000, &moved), TCPX_OK);
	assert_int_equal(moved, 40000);
	/* a loan made all the same is not looked at */
	atomic_store(&header->loans[0].loan[0].state, LOAN_OUT);
	atomic_store(&header->loans[0].loan[0].bytes, 100);
	atomic_store(&header->loans[0].head, 1);
	assert_int_equal(take(pair.b, dst, PIECE, &moved), TCPX_OK);
	assert_int_equal(moved, 40000);
	assert_int_equal(take(pair.b, dst, PIECE, &moved), TCPX_IN_PROGRESS);
	pair_close(&pair);
}

static void lying_loans_end_the_channel(void **state)
{
	static const struct {
		uint64_t bytes, at, head;
		uint32_t loan_state;
	} lies[] = {
		{0, 0, 1, LOAN_OUT},
		{LOCAL_LEND_MAX + 1, 0, 1, LOAN_OUT},
		{100, RING + 1, 1, LOAN_OUT},
		{100, UINT64_MAX, 1, LOAN_OUT},
		{100, 0, LOCAL_LOANS + 1, LOAN_OUT},
		{100, 0, UINT64_MAX, LOAN_OUT},
		{100, 0, 1, LOAN_NONE},
		{100, 0, 1, LOAN_OVER},
		{100, 0, 1, 77},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct local_loans *loans;
		struct pair pair;
		size_t moved;

		pair_any(&pair, 1);
		loans = inside(pair.b)->borrow;
		atomic_store(&loans->loan[0].bytes, lies[i].bytes);
		atomic_store(&loans->loan[0].at, lies[i].at);
		atomic_store(&loans->loan[0].state, lies[i].loan_state);
		atomic_store(&loans->head, lies[i].head);
		assert_int_equal(take(pair.b, dst, 1000, &moved), TCPX_ERR_PROTOCOL);
		pair_close(&pair);
	}
}

/* Random words in the loans of a peer: every call comes back, nothing outside is touched. */
static void random_loans_break_nothing(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 7);
	for (int i = 0; i < 2000; i++) {
		struct local_loans *loans;
		struct pair pair;

		pair_any(&pair, 1);
		loans = rng_one_in(&rng, 2) ? inside(pair.b)->borrow : inside(pair.b)->lend_to;
		for (int step = 0; step < 20; step++) {
			struct local_loan *loan = &loans->loan[rng_below(&rng, LOCAL_LOANS)];
			uint32_t events;
			size_t moved;

			switch (rng_below(&rng, 6)) {
			case 0:
				atomic_store(&loan->state, (uint32_t)rng_below(&rng, 7));
				break;
			case 1:
				atomic_store(&loan->bytes, rng_below(&rng, 100000));
				break;
			case 2:
				atomic_store(&loan->addr,
					     rng_one_in(&rng, 2) ? rng_u64(&rng) : (uintptr_t)src);
				break;
			case 3:
				atomic_fetch_add(&loans->head, rng_below(&rng, 3));
				break;
			default:
				lend(pair.b, src, 1 + rng_below(&rng, PIECE), &moved);
				take(pair.b, dst, 1 + rng_below(&rng, PIECE), &moved);
				pair.b->ops->loan->torn(pair.b);
				pair.b->ops->arm(pair.b, 1, 1, &events);
				lent(pair.b, (int)rng_below(&rng, 2));
			}
		}
		pair_close(&pair);
	}
}

struct flow {
	struct net_chan *chan;
	uint8_t *data;
	size_t bytes;
	uint64_t seed;
};

/* Lends a stream in pieces of any size, asleep while it must wait. */
static void *flow_out(void *arg)
{
	struct flow *flow = arg;
	int epfd = chan_epoll(flow->chan);
	size_t at = 0;
	struct rng rng;

	rng_seed(&rng, flow->seed);
	while (at < flow->bytes) {
		struct iovec iov[4];
		size_t n = 0, to = at, moved = 0;
		tcpx_status status;

		for (; n < 4 && to < flow->bytes; n++) {
			size_t len = 1 + rng_below(&rng, rng_one_in(&rng, 2) ? 3000 : PIECE);

			len = len < flow->bytes - to ? len : flow->bytes - to;
			iov[n] = (struct iovec){flow->data + to, len};
			to += len;
		}
		status = flow->chan->ops->loan->lend(flow->chan, iov, (int)n, &moved);
		if (status == TCPX_IN_PROGRESS)
			chan_sleep(flow->chan, epfd, 0, 1);
		else
			MUST(status == TCPX_OK);
		at += moved;
	}
	close(epfd);
	return NULL;
}

/* Two threads, sleeping: no wake-up is lost and the stream arrives as it was. */
static void stream_of_loans(void **state)
{
	enum { BYTES = 32 << 20 };
	uint8_t *data = malloc(BYTES), *got = malloc(BYTES);
	struct rng rng;

	(void)state;
	assert_true(data && got);
	rng_seed(&rng, 11);
	rng_fill(&rng, data, BYTES);
	for (int kernel = 0; kernel < 2; kernel++) {
		struct flow flow = {.data = data, .bytes = BYTES, .seed = 12};
		struct pair pair;
		pthread_t thread;
		int epfd;

		pair_any(&pair, kernel);
		memset(got, 0, BYTES);
		flow.chan = pair.a;
		epfd = chan_epoll(pair.b);
		assert_int_equal(pthread_create(&thread, NULL, flow_out, &flow), 0);
		assert_int_equal(chan_move_all(pair.b, epfd, 0, got, BYTES), TCPX_OK);
		pthread_join(thread, NULL);
		assert_memory_equal(got, data, BYTES);
		close(epfd);
		pair_close(&pair);
	}
	free(data);
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(piece_is_read_in_place),
		cmocka_unit_test(order_is_kept),
		cmocka_unit_test(taken_back_is_torn),
		cmocka_unit_test(reader_inside_keeps_it),
		cmocka_unit_test(dead_reader_reads_nothing),
		cmocka_unit_test(unmapped_source_is_told),
		cmocka_unit_test(other_process_is_noticed),
		cmocka_unit_test(wrong_offer_is_not_taken),
		cmocka_unit_test(lying_loans_end_the_channel),
		cmocka_unit_test(random_loans_break_nothing),
		cmocka_unit_test(stream_of_loans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
