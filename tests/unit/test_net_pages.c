/* SPDX-License-Identifier: Apache-2.0 */
/* Sending without a copy over TCP: the same bytes whatever the kernel's calls do, and copies where
 * it cannot be. */
#include "pages_rig.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define FRAMES 60
#else
#define FRAMES 300
#endif
#define PLAIN_BYTES (80u << 10)
#define TAIL_BYTES 16u
#define PIECES 4

static uint64_t piece_most = HELD_BYTES / PIECES;
static const char *filters;

/* A frame: plain bytes, held pieces, a few plain bytes. */
struct out {
	struct net_chan *chan;
	uint8_t *held, *plain, tail[TAIL_BYTES];
	struct iovec iov[PIECES + 2];
	int niov, first, count; /* first: of the held pieces that are left */
	bool abandoned;
	uint64_t left;
};

static void out_open(struct out *out, struct net_chan *chan)
{
	*out = (struct out){.chan = chan, .held = nonzero(HELD_BYTES, 1)};
	out->plain = malloc(PLAIN_BYTES);
	MUST(out->plain);
}

static void out_close(struct out *out)
{
	free(out->held);
	free(out->plain);
}

/* The next frame, which is added to the stream. */
static void compose(struct out *out, struct rng *rng, uint8_t *stream, uint64_t *at)
{
	uint64_t plain = rng_below(rng, rng_one_in(rng, 3) ? PLAIN_BYTES : 200);

	rng_fill(rng, out->plain, PLAIN_BYTES);
	rng_fill(rng, out->tail, TAIL_BYTES);
	out->niov = 0;
	if (plain)
		out->iov[out->niov++] = (struct iovec){out->plain, plain};
	out->first = out->niov;
	out->count = 1 + (int)rng_below(rng, PIECES);
	for (int i = 0; i < out->count; i++) {
		uint64_t most = rng_one_in(rng, 2) ? 3 * TCP_PAGES_MIN : piece_most;
		uint64_t bytes = 1 + rng_below(rng, most);
		uint64_t from = rng_below(rng, HELD_BYTES - bytes);

		out->iov[out->niov++] = (struct iovec){out->held + from, bytes};
	}
	out->iov[out->niov++] = (struct iovec){out->tail, TAIL_BYTES};
	out->abandoned = false;
	out->left = 0;
	for (int i = 0; i < out->niov; i++) {
		memcpy(stream + *at, out->iov[i].iov_base, out->iov[i].iov_len);
		*at += out->iov[i].iov_len;
		out->left += out->iov[i].iov_len;
	}
}

/* So many bytes went: what was not held is used for something else at once. */
static void advance(struct out *out, size_t bytes)
{
	out->left -= bytes;
	while (bytes) {
		struct iovec *piece = &out->iov[0];
		size_t take = bytes < piece->iov_len ? bytes : piece->iov_len;
		bool held = !out->first && out->count;

		if (!held)
			memset(piece->iov_base, 0xee, take);
		piece->iov_base = (char *)piece->iov_base + take;
		piece->iov_len -= take;
		bytes -= take;
		if (piece->iov_len)
			return;
		memmove(out->iov, out->iov + 1, (size_t)--out->niov * sizeof(*out->iov));
		if (out->first)
			out->first--;
		else if (out->count)
			out->count--;
	}
}

static tcpx_status send_some(struct out *out)
{
	size_t moved = 0;
	tcpx_status status;

	if (out->abandoned)
		status = out->chan->ops->send(out->chan, out->iov, out->niov, &moved);
	else
		status = out->chan->ops->zerocopy->send_held(out->chan, out->iov, out->niov,
							     out->first, out->count, &moved);
	if (status == TCPX_OK) {
		MUST(moved && moved <= out->left);
		advance(out, moved);
	} else {
		MUST(!moved);
	}
	return status;
}

/* The rest of the held pieces is not to be read from where it is any more. */
static void abandon(struct out *out)
{
	static const uint8_t zeros[HELD_BYTES];

	out->abandoned = true;
	for (int i = 0; i < out->count; i++)
		out->iov[i].iov_base = (void *)zeros;
}

#define STREAM_MAX ((uint64_t)FRAMES * (PLAIN_BYTES + HELD_BYTES + TAIL_BYTES))

struct ranges {
	uint64_t from[FRAMES], till[FRAMES]; /* of abandoned frames: from where, and the trailer */
	unsigned count;
};

/* Real bytes, which the pipe still had, then nothing but zeros. */
static void check_abandoned(const uint8_t *got, const uint8_t *want, uint64_t from, uint64_t till)
{
	uint64_t at = from;

	while (at < till && got[at] == want[at])
		at++;
	for (; at < till; at++)
		assert_int_equal(got[at], 0);
}

/* Frames of every shape, some of them abandoned in the middle. */
static void exchange(unsigned abandon_one_in, uint64_t seed)
{
	uint8_t *want = malloc(STREAM_MAX), *got = malloc(STREAM_MAX);
	static struct ranges ranges;
	uint64_t sent = 0, taken = 0, skip = 0;
	int little = 64 << 10;
	struct pair pair;
	struct out out;
	struct rng rng;

	MUST(want && got);
	ranges.count = 0;
	rng_seed(&rng, seed);
	pair_tcp(&pair);
	/* Full most of the time. */
	setsockopt(pair.a->ops->fd(pair.a), SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
	setsockopt(pair.b->ops->fd(pair.b), SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
	MUST(filter_wrap(filters, pair.a, &pair.a) == TCPX_OK);
	MUST(filter_wrap(filters, pair.b, &pair.b) == TCPX_OK);
	out_open(&out, pair.a);
	for (int i = 0; i < FRAMES; i++) {
		compose(&out, &rng, want, &sent);
		while (out.left) {
			tcpx_status status = send_some(&out);
			bool middle = !out.abandoned && !out.first && out.count;

			assert_true(status == TCPX_OK || status == TCPX_IN_PROGRESS);
			if (middle && abandon_one_in && rng_one_in(&rng, abandon_one_in)) {
				ranges.from[ranges.count] = sent - out.left;
				ranges.till[ranges.count++] = sent - TAIL_BYTES;
				abandon(&out);
			}
			if (status == TCPX_IN_PROGRESS || rng_one_in(&rng, 4))
				take(pair.b, &rng, got, &taken, sent - out.left);
		}
	}
	while (taken < sent)
		take(pair.b, &rng, got, &taken, sent);
	for (unsigned i = 0; i <= ranges.count; i++) {
		uint64_t until = i < ranges.count ? ranges.from[i] : sent;

		assert_memory_equal(got + skip, want + skip, until - skip);
		if (i < ranges.count)
			check_abandoned(got, want, until, skip = ranges.till[i]);
	}
	out_close(&out);
	pair_close(&pair);
	free(want);
	free(got);
}

static void bytes_are_exact(void **state)
{
	(void)state;
	exchange(0, 1);
	assert_true(kernel.vmspliced > 1u << 20);
	assert_int_equal(kernel.pipes, 1);
}

static void abandoned_frames_keep_their_place(void **state)
{
	(void)state;
	exchange(8, 2);
	assert_true(kernel.spliced > 1u << 20);
}

static void interrupted_and_short_calls(void **state)
{
	(void)state;
	kernel.turn = 3;
	exchange(0, 3);
	exchange(8, 4);
	assert_true(kernel.calls > FRAMES);
}

static void a_pipe_that_cannot_grow(void **state)
{
	(void)state;
	kernel.size_err = EPERM;
	exchange(8, 5);
	assert_true(kernel.vmspliced > 1u << 20);
}

/* Offers that are cut short end in the middle of held pieces, whose rest is in the pipe or not. */
static void through_filters(void **state)
{
	uint64_t before = filter_check_breaches();

	(void)state;
	piece_most = NET_CALL_BYTES / PIECES; /* what the check allows in a call */
	filters = "check,fault:seed=9:short=60:again=30,check";
	kernel.turn = 3;
	exchange(0, 11);
	exchange(4, 12);
	piece_most = HELD_BYTES / PIECES;
	filters = NULL;
	assert_int_equal(filter_check_breaches(), before);
	assert_true(kernel.vmspliced > 1u << 20);
}

/* ---- what cannot be is copied, and held memory is then free at once ---- */

static void everything_is_copied(uint64_t seed)
{
	uint8_t *bytes = nonzero(HELD_BYTES, seed), *want = malloc(HELD_BYTES), *got;
	struct iovec iov[2] = {{bytes, 100}, {bytes + 100, HELD_BYTES / 4}};
	size_t total = 0, moved = 0;
	struct pair pair;
	int epfd;

	got = malloc(HELD_BYTES);
	MUST(want && got);
	memcpy(want, bytes, HELD_BYTES);
	pair_tcp(&pair);
	epfd = chan_epoll(pair.b);
	while (total < 2) { /* one call, maybe in two parts */
		assert_int_equal(pair.a->ops->zerocopy->send_held(pair.a, iov, 2, 1, 1, &moved),
				 TCPX_OK);
		total += moved;
	}
	memset(bytes, 0xee, HELD_BYTES);
	assert_int_equal(chan_move_all(pair.b, epfd, 0, got, total), TCPX_OK);
	assert_memory_equal(got, want, total);
	assert_int_equal(kernel.spliced, 0);
	close(epfd);
	pair_close(&pair);
	free(bytes);
	free(want);
	free(got);
}

static void without_descriptors(void **state)
{
	(void)state;
	kernel.pipe_err = EMFILE;
	everything_is_copied(6);
	exchange(8, 7);
	assert_int_equal(kernel.spliced, 0);
}

static void a_pipe_that_holds_little(void **state)
{
	(void)state;
	kernel.size_err = EPERM;
	kernel.size_said = 8192; /* of a user who has all his pages in pipes */
	everything_is_copied(8);
	exchange(8, 9);
	assert_int_equal(kernel.spliced, 0);
}

static void without_vmsplice(void **state)
{
	static const int errs[] = {EFAULT, ENOSYS, EAGAIN, EPERM};

	(void)state;
	for (unsigned i = 0; i < sizeof(errs) / sizeof(errs[0]); i++) {
		kernel.pages_err = errs[i];
		everything_is_copied(10);
	}
	exchange(8, 11);
}

static void without_splice(void **state)
{
	(void)state;
	kernel.splice_err = EINVAL;
	everything_is_copied(12);
	exchange(8, 13);
}

/* It stops working in the middle of a piece. */
static void splice_ends_half_way(void **state)
{
	(void)state;
	kernel.err_after = EINVAL;
	exchange(0, 14);
	assert_true(kernel.spliced > 0 && kernel.spliced < kernel.vmspliced);
}

static void switched_off(void **state)
{
	(void)state;
	everything_is_copied(15);
	exchange(8, 16);
	assert_int_equal(kernel.pipes, 0);
}

int main(void)
{
	const struct CMUnitTest on[] = {
		CASE(bytes_are_exact),
		CASE(abandoned_frames_keep_their_place),
		CASE(interrupted_and_short_calls),
		CASE(a_pipe_that_cannot_grow),
		CASE(through_filters),
		CASE(without_descriptors),
		CASE(a_pipe_that_holds_little),
		CASE(without_vmsplice),
		CASE(without_splice),
		CASE(splice_ends_half_way),
	};
	const struct CMUnitTest off[] = {CASE(switched_off)};
	const char *splice = getenv("TCPX_TCP_SPLICE");

	if (splice && !strcmp(splice, "0"))
		return cmocka_run_group_tests(off, NULL, NULL);
	return cmocka_run_group_tests(on, NULL, NULL);
}
