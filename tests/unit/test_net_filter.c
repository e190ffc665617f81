/* SPDX-License-Identifier: Apache-2.0 */
/* Filters: what a spec may say, faults that replay from their seed, breaches that are seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include <tcpx/log.h>

#include "net_pair.h"

#define RING (1u << 20)

static void specs_are_checked(void **state)
{
	static const char *const bad[] = {
		"nonsense",
		"fault:nokey=1",
		"fault:seed",
		"fault:seed=",
		"fault:seed=x",
		"fault:short=101",
		"fault:seed=1x",
		"check:a=1",
		"fault,,check",
		"check,fault:drop=-1",
		"fault:short= 5",
		"faultx",
		",",
		"fault:",
	};
	struct net_chan *out = NULL;
	struct pair pair;

	(void)state;
	pair_ring(&pair, RING);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(filter_wrap(bad[i], pair.a, &out), TCPX_ERR_INVALID);
		assert_null(out);
	}
	assert_int_equal(filter_wrap("fault:seed=1,fault:shot=3", pair.a, &out), TCPX_ERR_INVALID);
	assert_non_null(strstr(tcpx_last_error()->what, "shot=3"));
	assert_int_equal(filter_wrap(NULL, pair.a, &out), TCPX_OK);
	assert_ptr_equal(out, pair.a);
	assert_int_equal(filter_wrap("", pair.a, &out), TCPX_OK);
	assert_ptr_equal(out, pair.a);
	assert_int_equal(filter_wrap("fault:seed=0x10:drop=0:short=5,check", pair.a, &pair.a),
			 TCPX_OK);
	assert_string_equal(pair.a->ops->name, "local");
	assert_true(pair.a->ops->caps & NET_CAP_DOORBELL);
	pair_close(&pair);
}

/* How many bytes each of 200 sends of 1000 took, 0 for IN_PROGRESS; ended by a drop. */
static int fault_history(const char *spec, int history[200])
{
	uint8_t bytes[1000] = {0};
	struct iovec iov[2] = {{bytes, 400}, {bytes + 400, 600}};
	struct pair pair;
	int n = 0, shorts = 0;

	pair_ring(&pair, RING);
	assert_int_equal(filter_wrap(spec, pair.a, &pair.a), TCPX_OK);
	for (; n < 200; n++) {
		size_t moved = 0;
		tcpx_status status = pair.a->ops->send(pair.a, iov, 2, &moved);

		assert_true(status >= 0);
		history[n] = (int)moved;
		shorts += moved < 1000;
	}
	pair_close(&pair);
	return shorts;
}

/* Runs in a child each, because channels are numbered within a process. */
static void history_of_child(const char *spec, int history[200])
{
	int fds[2], status;
	pid_t child;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		fault_history(spec, history);
		_exit(write(fds[1], history, 200 * sizeof(int)) != 200 * sizeof(int));
	}
	assert_int_equal(read(fds[0], history, 200 * sizeof(int)), 200 * sizeof(int));
	assert_int_equal(waitpid(child, &status, 0), child);
	close(fds[0]);
	close(fds[1]);
}

static void faults_replay_from_the_seed(void **state)
{
	int one[200], two[200], other[200];

	(void)state;
	history_of_child("fault:seed=5:short=30:again=20", one);
	history_of_child("fault:seed=5:short=30:again=20", two);
	history_of_child("fault:seed=6:short=30:again=20", other);
	assert_memory_equal(one, two, sizeof(one));
	assert_true(memcmp(one, other, sizeof(one)) != 0);
}

static void rates_are_as_asked(void **state)
{
	int history[200], shorts;

	(void)state;
	assert_int_equal(fault_history("fault:seed=1", history), 0);
	shorts = fault_history("fault:seed=1:short=30", history);
	assert_in_range(shorts, 30, 90);
	shorts = fault_history("fault:seed=1:again=100", history);
	assert_int_equal(shorts, 100); /* every second call: one is always let through */
}

/* Sends until it fails; returns the bytes that were taken. */
static size_t send_until_lost(struct pair *pair, tcpx_status *out_status)
{
	static uint8_t bytes[64u << 10];
	struct iovec iov = {bytes, sizeof(bytes)};
	size_t total = 0, moved = 0;

	while (!(*out_status = pair->a->ops->send(pair->a, &iov, 1, &moved))) {
		total += moved;
		while (moved) {
			size_t part = 0;

			if (pair->b->ops->recv(pair->b, &iov, 1, &part))
				break;
			moved -= part;
		}
		if (total > 64u << 20)
			break;
	}
	return total;
}

static void drop_loses_the_channel_both_ways(void **state)
{
	uint8_t byte;
	struct iovec iov = {&byte, 1};
	tcpx_status status;
	struct pair pair;
	size_t moved;

	(void)state;
	pair_ring(&pair, RING);
	assert_int_equal(filter_wrap("fault:drop=4", pair.a, &pair.a), TCPX_OK);
	assert_in_range(send_until_lost(&pair, &status), 3u << 20, (5u << 20) + (64u << 10));
	assert_int_equal(status, TCPX_ERR_PEER_RESET);
	assert_int_equal(pair.a->ops->recv(pair.a, &iov, 1, &moved), TCPX_ERR_PEER_RESET);
	while ((status = pair.b->ops->recv(pair.b, &iov, 1, &moved)) == TCPX_OK)
		;
	assert_int_equal(status, TCPX_ERR_PEER_CLOSED);
	pair_close(&pair);
}

static void flip_changes_one_bit(void **state)
{
	enum { TOTAL = 8 << 20 };
	static uint8_t bytes[100000];
	int flipped = 0;
	struct pair pair;

	(void)state;
	pair_ring(&pair, RING);
	assert_int_equal(filter_wrap("fault:seed=3:flip=4", pair.b, &pair.b), TCPX_OK);
	for (size_t at = 0; at < TOTAL;) {
		struct iovec iov[2] = {{bytes, 3}, {bytes + 3, sizeof(bytes) - 3}};
		size_t sent = 0, part = 0;

		memset(bytes, 0, sizeof(bytes));
		assert_int_equal(pair.a->ops->send(pair.a, iov, 2, &sent), TCPX_OK);
		assert_int_equal(pair.b->ops->recv(pair.b, iov, 2, &part), TCPX_OK);
		assert_int_equal(sent, part);
		for (size_t i = 0; i < part; i++)
			flipped += __builtin_popcount(bytes[i]);
		at += part;
	}
	assert_int_equal(flipped, 1);
	pair_close(&pair);
}

/* A transport that does whatever the test says, to be watched. */
struct liar {
	struct net_chan base;
	tcpx_status status;
	size_t moved;
	int change_iov;
	struct net_chan *call_back; /* send calls send of this */
	size_t offered;		    /* bytes of the last call */
	int held, asked;	    /* of the last send_held; calls that only ask or end */
};

static tcpx_status liar_move(struct net_chan *base, const struct iovec *iov, int niov,
			     size_t *out_bytes)
{
	struct liar *liar = (struct liar *)base;
	struct net_chan *again = liar->call_back;
	size_t moved;

	liar->call_back = NULL;
	if (again)
		(void)!again->ops->send(again, iov, niov, &moved);
	if (liar->change_iov)
		((struct iovec *)iov)->iov_len--;
	liar->offered = 0;
	for (int i = 0; i < niov; i++)
		liar->offered += iov[i].iov_len;
	*out_bytes = liar->moved == SIZE_MAX ? liar->offered : liar->moved;
	return liar->status;
}

static tcpx_status liar_move_held(struct net_chan *base, const struct iovec *iov, int niov,
				  int first, int held, size_t *out_bytes)
{
	((struct liar *)base)->held = first * 100 + held;
	return liar_move(base, iov, niov, out_bytes);
}

static int liar_says_no(const struct net_chan *base)
{
	((struct liar *)base)->asked++;
	return 0;
}

static void liar_shutdown(struct net_chan *base)
{
	((struct liar *)base)->asked++;
}

static int liar_fd(const struct net_chan *base)
{
	(void)base;
	return -1;
}

static void liar_close(struct net_chan *base)
{
	(void)base;
}

static const struct net_ops liar_ops = {
	.name = "liar", .send = liar_move, .recv = liar_move, .fd = liar_fd, .close = liar_close};

static const struct net_zerocopy_ops liar_zerocopy = {.send_held = liar_move_held,
						      .intact = liar_says_no,
						      .ended = liar_says_no,
						      .purge = liar_shutdown};

static const struct net_ops liar_held_ops = {.name = "liar",
					     .send = liar_move,
					     .recv = liar_move,
					     .shutdown = liar_shutdown,
					     .close = liar_close,
					     .zerocopy = &liar_zerocopy};

static unsigned new_breaches(void)
{
	static uint64_t seen;
	uint64_t now = filter_check_breaches();
	unsigned fresh = (unsigned)(now - seen);

	seen = now;
	return fresh;
}

static unsigned watch(struct liar *liar, struct net_chan *chan, tcpx_status status, size_t moved)
{
	uint8_t bytes[10];
	struct iovec iov = {bytes, sizeof(bytes)};
	size_t out = 0;

	liar->status = status;
	liar->moved = moved;
	(void)!chan->ops->send(chan, &iov, 1, &out);
	return new_breaches();
}

static void check_sees_a_bad_transport(void **state)
{
	struct liar liar = {.base.ops = &liar_ops};
	struct net_chan *chan = NULL;

	(void)state;
	assert_int_equal(filter_wrap("check", &liar.base, &chan), TCPX_OK);
	assert_int_equal(watch(&liar, chan, TCPX_OK, 10), 0);
	assert_int_equal(watch(&liar, chan, TCPX_IN_PROGRESS, 0), 0);
	assert_int_equal(watch(&liar, chan, TCPX_ERR_INVALID, 0), 0);
	assert_int_equal(watch(&liar, chan, TCPX_OK, 0), 1);
	assert_int_equal(watch(&liar, chan, TCPX_OK, 11), 1);
	assert_int_equal(watch(&liar, chan, TCPX_IN_PROGRESS, 5), 1);
	assert_int_equal(watch(&liar, chan, TCPX_ERR_CANCELLED, 0), 1);
	liar.change_iov = 1;
	assert_int_equal(watch(&liar, chan, TCPX_OK, 5), 1);
	liar.change_iov = 0;
	assert_int_equal(watch(&liar, chan, TCPX_ERR_PEER_RESET, 0), 0);
	assert_int_equal(watch(&liar, chan, TCPX_ERR_PEER_CLOSED, 0), 0);
	assert_int_equal(watch(&liar, chan, TCPX_OK, 5), 1);
	chan->ops->close(chan);
	assert_int_equal(new_breaches(), 0);
}

static void check_sees_a_bad_caller(void **state)
{
	static uint8_t big[1u << 20];
	struct liar liar = {.base.ops = &liar_ops, .moved = 1};
	struct iovec iov = {big, 10}, none = {big, 0}, hole = {NULL, 10}, much = {big, sizeof(big)};
	struct net_chan *chan = NULL;
	size_t moved;

	(void)state;
	assert_int_equal(filter_wrap("check", &liar.base, &chan), TCPX_OK);
	(void)!chan->ops->recv(chan, &iov, 1, &moved);
	assert_int_equal(new_breaches(), 0);
	(void)!chan->ops->recv(chan, &iov, 0, &moved);
	assert_true(new_breaches() >= 1);
	(void)!chan->ops->recv(chan, &none, 1, &moved);
	assert_true(new_breaches() >= 1);
	(void)!chan->ops->recv(chan, &hole, 1, &moved);
	assert_int_equal(new_breaches(), 1);
	(void)!chan->ops->recv(chan, &much, 1, &moved);
	assert_int_equal(new_breaches(), 1);
	liar.call_back = chan; /* a second sender while one is inside */
	(void)!chan->ops->send(chan, &iov, 1, &moved);
	assert_int_equal(new_breaches(), 1);
	chan->ops->close(chan);
	assert_int_equal(chan->ops->send(chan, &iov, 1, &moved), TCPX_ERR_CHANNEL_LOST);
	assert_int_equal(chan->ops->fd(chan), -1);
	assert_int_equal(new_breaches(), 2);
}

static void check_watches_held_pieces(void **state)
{
	uint8_t bytes[10];
	struct iovec iov[3] = {{bytes, 2}, {bytes, 3}, {bytes, 4}};
	struct liar liar = {.base.ops = &liar_held_ops, .moved = 9};
	struct net_chan *chan = NULL;
	size_t moved = 0;

	(void)state;
	assert_int_equal(filter_wrap("check", &liar.base, &chan), TCPX_OK);
	(void)new_breaches();
	assert_int_equal(chan->ops->zerocopy->send_held(chan, iov, 3, 1, 2, &moved), TCPX_OK);
	assert_int_equal(liar.held, 102);
	assert_int_equal(moved, 9);
	assert_false(chan->ops->zerocopy->intact(chan));
	assert_int_equal(liar.asked, 1);
	assert_int_equal(new_breaches(), 0);
	(void)!chan->ops->zerocopy->send_held(chan, iov, 3, 2, 2, &moved);
	assert_int_equal(new_breaches(), 1);
	liar.moved = 10;
	(void)!chan->ops->zerocopy->send_held(chan, iov, 3, 1, 1, &moved);
	assert_int_equal(new_breaches(), 1);
	(void)chan->ops->zerocopy->ended(chan); /* both come after shutdown */
	chan->ops->zerocopy->purge(chan);
	assert_int_equal(new_breaches(), 2);
	chan->ops->shutdown(chan);
	liar.asked = 0;
	assert_false(chan->ops->zerocopy->ended(chan));
	chan->ops->zerocopy->purge(chan);
	assert_int_equal(liar.asked, 2);
	assert_int_equal(new_breaches(), 0);
	chan->ops->close(chan);
	assert_true(chan->ops->zerocopy->ended(chan));
	assert_int_equal(new_breaches(), 1);
}

/* A cut leaves no held piece beyond what is offered. What was offered and not counted may be with
 * the transport already: it is offered again, whole. */
static void fault_cuts_held_pieces(void **state)
{
	static uint8_t bytes[1000];
	struct iovec iov[3] = {{bytes, 100}, {bytes, 400}, {bytes, 500}};
	struct liar liar = {.base.ops = &liar_held_ops};
	struct net_chan *chan = NULL;
	size_t moved = 0, ahead = 0;
	int cut = 0;

	(void)state;
	assert_int_equal(filter_wrap("check,fault:seed=4:short=60", &liar.base, &chan), TCPX_OK);
	(void)new_breaches();
	for (int i = 0; i < 200; i++) {
		liar.moved = i % 2 ? SIZE_MAX : 1; /* all that is offered */
		if (i % 4 == 3)
			(void)!chan->ops->send(chan, iov, 3, &moved);
		else
			(void)!chan->ops->zerocopy->send_held(chan, iov, 3, 1, 2, &moved);
		assert_true(liar.offered >= ahead);
		ahead = i % 2 ? 0 : liar.offered - 1;
		cut += liar.offered < sizeof(bytes);
	}
	assert_in_range(cut, 20, 180);
	assert_int_equal(new_breaches(), 0);
	chan->ops->close(chan);
}

/* A table of operations that are all the same one. */
static void fill_table(void *table, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += sizeof(void (*)(void)))
		memcpy((char *)table + at, &(void (*)(void)){(void (*)(void))liar_fd},
		       sizeof(void (*)(void)));
}

/* A filter's table: each operation is there, and is the filter's own. */
static void table_is_filtered(const void *table, size_t bytes)
{
	assert_non_null(table);
	for (size_t at = 0; at < bytes; at += sizeof(void (*)(void))) {
		void (*of)(void);

		memcpy(&of, (const char *)table + at, sizeof(of));
		assert_true(of != NULL);
		assert_true(of != (void (*)(void))liar_fd);
	}
}

/* Every operation of a transport is one of its filters, too: a new one must not be forgotten. */
static void filters_have_every_operation(void **state)
{
	static const char *const specs[] = {"check", "fault:short=1"};
	/* The operations stand between the capabilities and the extras. */
	const size_t begin = offsetof(struct net_ops, send),
		     end = offsetof(struct net_ops, zerocopy);
	struct net_zerocopy_ops zerocopy;
	struct net_loan_ops loan;
	struct net_reading_ops reading;
	struct net_message_ops message;
	struct net_ops all = {.name = "all",
			      .zerocopy = &zerocopy,
			      .loan = &loan,
			      .reading = &reading,
			      .message = &message};
	struct liar liar = {.base.ops = &all};

	(void)state;
	assert_int_equal(sizeof(all) - end, 4 * sizeof(void *)); /* each extra is below */
	fill_table((char *)&all + begin, end - begin);
	fill_table(&zerocopy, sizeof(zerocopy));
	fill_table(&loan, sizeof(loan));
	fill_table(&reading, sizeof(reading));
	fill_table(&message, sizeof(message));
	all.close = liar_close;
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct net_chan *chan = NULL;

		assert_int_equal(filter_wrap(specs[i], &liar.base, &chan), TCPX_OK);
		table_is_filtered((const char *)chan->ops + begin, end - begin);
		table_is_filtered(chan->ops->zerocopy, sizeof(zerocopy));
		table_is_filtered(chan->ops->loan, sizeof(loan));
		table_is_filtered(chan->ops->reading, sizeof(reading));
		table_is_filtered(chan->ops->message, sizeof(message));
		free(chan);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(specs_are_checked),
		cmocka_unit_test(faults_replay_from_the_seed),
		cmocka_unit_test(rates_are_as_asked),
		cmocka_unit_test(drop_loses_the_channel_both_ways),
		cmocka_unit_test(flip_changes_one_bit),
		cmocka_unit_test(check_sees_a_bad_transport),
		cmocka_unit_test(check_sees_a_bad_caller),
		cmocka_unit_test(check_watches_held_pieces),
		cmocka_unit_test(fault_cuts_held_pieces),
		cmocka_unit_test(filters_have_every_operation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
