/* SPDX-License-Identifier: Apache-2.0 */
/* Sending without a copy over TCP: memory that is not held, a full socket, and ends of a connection
 * on either side. */
#include "descriptors.h"
#include "pages_rig.h"

#define PLAIN_BYTES (80u << 10)

/* A large piece beside the held ones, as a buffer full of small frames is one. */
static void what_is_not_held_is_free_at_once(void **state)
{
	static uint8_t plain[2][PLAIN_BYTES], held[64u << 10], got[sizeof(plain) + sizeof(held)];
	struct iovec iov[3] = {
		{plain[0], PLAIN_BYTES}, {held, sizeof(held)}, {plain[1], PLAIN_BYTES}};
	size_t moved = 0;
	struct pair pair;
	int epfd;

	(void)state;
	memset(plain[0], 1, PLAIN_BYTES);
	memset(held, 2, sizeof(held));
	memset(plain[1], 3, PLAIN_BYTES);
	pair_tcp(&pair);
	epfd = chan_epoll(pair.b);
	assert_int_equal(pair.a->ops->zerocopy->send_held(pair.a, iov, 3, 1, 1, &moved), TCPX_OK);
	assert_int_equal(moved, sizeof(got)); /* there is room for it */
	memset(plain, 0xee, sizeof(plain));
	memset(held, 4, sizeof(held)); /* the test knows what it does */
	assert_int_equal(chan_move_all(pair.b, epfd, 0, got, moved), TCPX_OK);
	for (size_t i = 0; i < moved; i++)
		assert_int_equal(got[i], i < PLAIN_BYTES		  ? 1
					 : i < PLAIN_BYTES + sizeof(held) ? 4
									  : 3);
	close(epfd);
	pair_close(&pair);
}

/* ---- a full socket ---- */

static uint64_t in_pipe(void)
{
	return kernel.vmspliced - kernel.spliced;
}

/* Fills the socket until bytes stay in the pipe. */
static uint64_t fill_up(struct net_chan *chan, uint8_t *held)
{
	uint64_t sent = 0;
	size_t moved = 0;

	for (;;) {
		struct iovec iov = {held + sent % 4096, HELD_BYTES / 2};
		tcpx_status status = chan->ops->zerocopy->send_held(chan, &iov, 1, 0, 1, &moved);

		if (status == TCPX_IN_PROGRESS)
			break;
		assert_int_equal(status, TCPX_OK);
		sent += moved;
	}
	assert_true(in_pipe() > 0);
	return sent;
}

/* What the pipe holds comes first, whatever a send offers; nothing is there twice. */
static void bytes_in_the_pipe_come_first(void **state)
{
	uint8_t *held = nonzero(HELD_BYTES, 17), *got;
	uint64_t sent, piped, taken = 0;
	uint8_t other[100] = {0};
	struct iovec iov = {other, sizeof(other)};
	struct pair pair;
	size_t moved = 0;
	struct rng rng;
	tcpx_status status;

	(void)state;
	rng_seed(&rng, 17);
	pair_tcp(&pair);
	memset(held, 7, HELD_BYTES);
	sent = fill_up(pair.a, held);
	piped = in_pipe();
	got = malloc(sent + piped + sizeof(other));
	MUST(got);
	while (in_pipe()) {
		take(pair.b, &rng, got, &taken, sent);
		moved = 0;
		status = pair.a->ops->send(pair.a, &iov, 1, &moved);
		assert_true(status == TCPX_OK || status == TCPX_IN_PROGRESS);
		sent += moved;
	}
	assert_int_equal(pair.a->ops->send(pair.a, &iov, 1, &moved), TCPX_OK);
	assert_int_equal(moved, sizeof(other));
	sent += moved;
	while (taken < sent)
		take(pair.b, &rng, got, &taken, sent);
	for (uint64_t i = 0; i < sent; i++)
		assert_int_equal(got[i], i < sent - sizeof(other) ? 7 : 0);
	pair_close(&pair);
	free(held);
	free(got);
}

/* ---- ends ---- */

static unsigned signals;

static void on_signal(int number)
{
	(void)number;
	signals++;
}

/* The peer resets while a call is under way: what went is counted, the next call says why, the
 * other direction does not take it for an orderly end, and no signal comes. */
static void reset_behind_a_part(void **state)
{
	uint8_t *held = nonzero(HELD_BYTES, 18);
	struct iovec iov = {held, HELD_BYTES / 4};
	struct linger reset = {.l_onoff = 1};
	struct sigaction action = {.sa_handler = on_signal}, old;
	struct pair pair;
	size_t moved = 0;

	(void)state;
	signals = 0;
	sigaction(SIGPIPE, &action, &old);
	pair_tcp(&pair);
	kernel.err_after = ECONNRESET;
	kernel.signal_after = 1;
	assert_int_equal(pair.a->ops->zerocopy->send_held(pair.a, &iov, 1, 0, 1, &moved), TCPX_OK);
	assert_in_range(moved, 1, HELD_BYTES / 4 - 1);
	setsockopt(pair.b->ops->fd(pair.b), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	for (int i = 0; i < 2; i++)
		assert_int_equal(pair.a->ops->zerocopy->send_held(pair.a, &iov, 1, 0, 1, &moved),
				 TCPX_ERR_PEER_RESET);
	assert_int_equal(pair.a->ops->send(pair.a, &iov, 1, &moved), TCPX_ERR_PEER_RESET);
	shutdown(pair.b->ops->fd(pair.b), SHUT_WR); /* an end that looks orderly */
	while (try_recv(pair.a, 1) == TCPX_IN_PROGRESS)
		;
	assert_int_equal(try_recv(pair.a, 1), TCPX_ERR_PEER_RESET);
	assert_int_equal(signals, 0);
	sigaction(SIGPIPE, &old, NULL);
	pair_close(&pair);
	free(held);
}

/* A real end of the peer, met by every call: never a signal; one of somebody else's stays. */
static void no_signal_is_raised_and_none_is_lost(void **state)
{
	struct sigaction action = {.sa_handler = on_signal}, old;
	uint8_t *held = nonzero(HELD_BYTES, 19);
	struct iovec iov = {held, HELD_BYTES / 4};
	struct pair pair;
	sigset_t pipe, was, pending;
	size_t moved = 0;

	(void)state;
	signals = 0;
	sigaction(SIGPIPE, &action, &old);
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	for (int before = 0; before < 2; before++) {
		tcpx_status status;

		pthread_sigmask(SIG_BLOCK, &pipe, &was);
		if (before)
			pthread_kill(pthread_self(), SIGPIPE);
		else
			pthread_sigmask(SIG_SETMASK, &was, NULL);
		pair_tcp(&pair);
		pair.b->ops->close(pair.b);
		pair.b = NULL;
		do
			status = pair.a->ops->zerocopy->send_held(pair.a, &iov, 1, 0, 1, &moved);
		while (status == TCPX_OK || status == TCPX_IN_PROGRESS);
		assert_true(status <= TCPX_ERR_CHANNEL_LOST);
		pair.a->ops->close(pair.a);
		pair_tcp(&pair); /* and one that says EPIPE the first time */
		shutdown(pair.a->ops->fd(pair.a), SHUT_WR);
		assert_true(pair.a->ops->zerocopy->send_held(pair.a, &iov, 1, 0, 1, &moved) < 0);
		pair_close(&pair);
		sigpending(&pending);
		assert_int_equal(sigismember(&pending, SIGPIPE), before);
		pthread_sigmask(SIG_SETMASK, &was, NULL);
		assert_int_equal(signals, (unsigned)before);
	}
	sigaction(SIGPIPE, &old, NULL);
	free(held);
}

static void await_ended(struct net_chan *chan)
{
	struct pollfd nothing = {.fd = -1};

	for (int i = 0; !chan->ops->zerocopy->ended(chan); i++) {
		assert_true(i < 20000); /* a wide guard */
		(void)poll(&nothing, 1, 1);
	}
}

/* The peer's end of the connection is told apart from ours. */
static void the_peers_end_shows(void **state)
{
	struct pair pair;

	(void)state;
	for (int how = 0; how < 3; how++) {
		pair_tcp(&pair);
		assert_int_equal(try_send(pair.a, 1000), TCPX_OK);
		assert_false(pair.a->ops->zerocopy->ended(pair.a));
		pair.a->ops->shutdown(pair.a);
		assert_false(pair.a->ops->zerocopy->ended(pair.a));
		if (how == 0)
			pair.b->ops->shutdown(pair.b);
		else if (how == 1)
			assert_int_equal(try_recv(pair.b, 1000), TCPX_OK);
		if (how) /* with bytes that it did not take: a reset; without: an orderly end */
			pair.b->ops->close(pair.b);
		await_ended(pair.a);
		if (how)
			pair.b = NULL;
		pair_close(&pair);
	}
}

static void await_reset(struct net_chan *chan)
{
	struct pollfd nothing = {.fd = -1};

	for (int i = 0; chan->ops->zerocopy->intact(chan); i++) {
		assert_true(i < 20000); /* a wide guard */
		(void)poll(&nothing, 1, 1);
	}
}

/* What was queued before a purge is still there to be received, as whatever it is by now; the one
 * who receives can tell. */
static void a_purge_shows_in_what_was_queued(void **state)
{
	uint8_t *held = nonzero(HELD_BYTES, 20);
	struct pair pair;

	(void)state;
	pair_tcp(&pair);
	fill_up(pair.a, held);
	assert_true(pair.b->ops->zerocopy->intact(pair.b));
	pair.a->ops->shutdown(pair.a);
	assert_int_equal(try_recv(pair.b, 1000), TCPX_OK);
	assert_true(pair.b->ops->zerocopy->intact(pair.b)); /* an end alone does not harm */
	pair.a->ops->zerocopy->purge(pair.a);
	memset(held, 0xee, HELD_BYTES);
	await_reset(pair.b);
	assert_int_equal(try_recv(pair.b, 1000), TCPX_OK);
	assert_false(pair.b->ops->zerocopy->intact(pair.b));
	pair_close(&pair);
	free(held);
}

/* Who shut his end down and said so takes nothing more. */
static void nothing_is_received_after_shutdown(void **state)
{
	struct pair pair;

	(void)state;
	pair_tcp(&pair);
	assert_int_equal(try_send(pair.a, 1000), TCPX_OK);
	assert_int_equal(try_recv(pair.b, 10), TCPX_OK);
	pair.b->ops->shutdown(pair.b);
	assert_int_equal(try_recv(pair.b, 10), TCPX_ERR_DISCONNECTED);
	pair_close(&pair);
	pair_tcp(&pair); /* neither what a call takes that was under way then */
	assert_int_equal(try_send(pair.a, 1000), TCPX_OK);
	kernel.shuts = pair.b;
	assert_int_equal(try_recv(pair.b, 10), TCPX_ERR_DISCONNECTED);
	pair_close(&pair);
}

static void descriptors_come_back(void **state)
{
	uint8_t *held = nonzero(HELD_BYTES, 21);
	unsigned before = open_descriptors();
	struct pair pair;

	(void)state;
	for (int purge = 0; purge < 2; purge++) {
		pair_tcp(&pair);
		fill_up(pair.a, held);
		pair.a->ops->shutdown(pair.a);
		if (purge)
			pair.a->ops->zerocopy->purge(pair.a);
		pair_close(&pair);
		assert_int_equal(open_descriptors(), before);
	}
	free(held);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_not_held_is_free_at_once),
		CASE(bytes_in_the_pipe_come_first),
		CASE(reset_behind_a_part),
		CASE(no_signal_is_raised_and_none_is_lost),
		CASE(the_peers_end_shows),
		CASE(a_purge_shows_in_what_was_queued),
		CASE(nothing_is_received_after_shutdown),
		CASE(descriptors_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
