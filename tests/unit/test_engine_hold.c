/* SPDX-License-Identifier: Apache-2.0 */
/* What went to a socket without a copy stays as it is until the peer has taken it, whatever happens
 * to the channel, the peer or the session; then it is given back. */
#include "descriptors.h"
#include "hold_rig.h"

#define MARGIN_NS (400 * CLOCK_MS_NS) /* a peer that does not end has at least so long */

static struct raw other;

/* Somebody else's transfer, from begin to end, by whatever memory is free. */
static void others_read(tcpx_peer *out_peer)
{
	struct reader reader;

	connect_as(&other, "other", out_peer);
	reader_open(&reader, &other, &second);
	ask_for(&other, &second, ALL);
	read_until(&reader, ALL, true);
	reader_close(&reader);
}

static void others_end(void)
{
	raw_close(&other);
	(void)await(TCPX_EVENT_PEER_DOWN);
}

static void slices_stay_until_they_are_taken(void **state)
{
	struct reader reader;
	tcpx_peer peer, theirs;

	(void)state;
	connect_as(&raw, "one", &peer);
	send_untaken(&raw, &reader, &first, ALL);
	assert_int_equal(mem_staging_used(pool), ALL);
	others_read(&theirs);
	read_until(&reader, ALL, false);
	assert_in_range(mem_staging_used(pool), ALL, ALL + ALL); /* it was not told yet */
	for (uint32_t i = 1; i < RAW_CHANNELS; i++)
		say_got(&reader, i, 0); /* taken, and not applied */
	await_used(0);
	for (uint32_t i = 0; i < ALL / CHUNK; i++)
		assert_int_equal(reader.seen[i], 1);
	others_end();
	raw_close(&raw);
	(void)await(TCPX_EVENT_PEER_DOWN);
	reader_close(&reader);
}

/* No more than a window of each channel is on its way; what was taken makes room for the rest. */
static void a_window_is_on_its_way(void **state)
{
	struct reader reader;
	uint64_t before = sent_now();
	tcpx_peer peer;

	(void)state;
	connect_as(&raw, "one", &peer);
	send_untaken(&raw, &reader, &first, 2 * ALL);
	mem_slow_settle();
	assert_int_equal(sent_now() - before, ALL);
	read_until(&reader, 2 * ALL, true);
	for (uint32_t i = 0; i < 2 * ALL / CHUNK; i++)
		assert_int_equal(reader.seen[i], 1);
	await_used(0);
	raw_close(&raw);
	(void)await(TCPX_EVENT_PEER_DOWN);
	reader_close(&reader);
}

static void say_fence(struct raw *peer, uint32_t channel, uint64_t applied)
{
	struct frame fence = {.type = FRAME_FENCE,
			      .key = channel,
			      .epoch = peer->chan[channel].epoch,
			      .linear = applied};

	raw_control(peer, &fence, NULL);
}

/* Of a lost channel they stay until its fence: the peer may be reading what it had got. What goes
 * out again over the other channel is right. */
static void a_lost_channel_keeps_them_until_its_fence(void **state)
{
	struct raw_chan lost;
	struct reader reader;
	tcpx_peer peer, theirs;
	struct pollfd nothing = {.fd = -1};

	(void)state;
	connect_as(&raw, "one", &peer);
	send_untaken(&raw, &reader, &first, ALL);
	lost = raw.chan[2]; /* its end stays open; ours is told nothing but an error */
	shutdown(lost.fd, SHUT_WR);
	(void)await(TCPX_EVENT_CHANNEL_DOWN);
	(void)poll(&nothing, 1, 20); /* were they given back now, others would have them */
	assert_int_equal(mem_staging_used(pool), ALL);
	others_read(&theirs);
	read_channel(&reader, 2);
	assert_true(reader.frames[2] > 0); /* and they were right */
	memset(reader.seen, 0, sizeof(reader.seen));
	reader.payload = 0;
	reader.over[2] = true;
	say_fence(&raw, 2, 0);
	read_until(&reader, ALL, true);
	for (uint32_t i = 0; i < ALL / CHUNK; i++)
		assert_int_equal(reader.seen[i], 1);
	await_used(0);
	others_end();
	raw_close(&raw);
	(void)await(TCPX_EVENT_PEER_DOWN);
	reader_close(&reader);
}

/* We gave the peer up, and it does not know: what it finds in its sockets is right to the last
 * byte, while others go on. When it has ended its side too, all memory is back. */
static void a_dead_peer_reads_right_bytes(void **state)
{
	struct reader reader;
	tcpx_peer peer, theirs;
	int64_t begin;

	(void)state;
	connect_as(&raw, "one", &peer);
	send_untaken(&raw, &reader, &first, ALL);
	begin = clock_now_ns();
	assert_int_equal(tcpx_peer_disconnect(session, peer), TCPX_OK);
	others_read(&theirs);
	for (int n = 0; !reader.over[1] || !reader.over[2]; n++) {
		read_channel(&reader, 1);
		read_channel(&reader, 2);
		nap(n);
	}
	if (clock_now_ns() - begin < MARGIN_NS) {
		assert_false(reader.reset[1] || reader.reset[2]);
		assert_int_equal(reader.payload, ALL);
		assert_in_range(mem_staging_used(pool), ALL, ALL + ALL);
	}
	raw_close(&raw);
	others_end();
	await_used(0);
	reader_close(&reader);
}

/* One that neither reads nor ends: its connections are reset, and the memory is back. */
static void a_dead_peer_does_not_keep_them(void **state)
{
	struct reader reader;
	tcpx_peer peer;

	(void)state;
	connect_as(&raw, "one", &peer);
	send_untaken(&raw, &reader, &first, ALL);
	assert_int_equal(tcpx_peer_disconnect(session, peer), TCPX_OK);
	await_used(0);
	for (uint32_t i = 1; i < RAW_CHANNELS; i++) {
		for (int n = 0; !reader.over[i]; n++) {
			read_channel(&reader, i);
			nap(n);
		}
		assert_true(reader.reset[i]);
	}
	raw_close(&raw);
	reader_close(&reader);
}

/* A peer that is gone with everything untaken, at each moment of it. */
static void nothing_is_left_of_a_peer(void **state)
{
	unsigned before = open_descriptors();
	struct reader reader;
	tcpx_peer peer;

	(void)state;
	for (int round = 0; round < 30; round++) {
		connect_as(&raw, "one", &peer);
		reader_open(&reader, &raw, &first);
		ask_for(&raw, &first, 2 * ALL);
		if (round % 3 == 0)
			await_sent(ALL);
		else if (round % 3 == 1)
			read_until(&reader, CHUNK * (uint64_t)round / 3, true);
		raw_close(&raw);
		(void)await(TCPX_EVENT_PEER_DOWN);
		mem_slow_settle();
		await_used(0);
		reader_close(&reader);
	}
	for (int i = 0; open_descriptors() != before; i++)
		nap(i);
}

static void a_session_that_closes_gives_them_back(void **state)
{
	struct reader reader;
	tcpx_peer peer;

	connect_as(&raw, "one", &peer);
	send_untaken(&raw, &reader, &first, ALL);
	assert_int_equal(mem_staging_used(pool), ALL);
	tcpx_session_close(session);
	/* The runtime has ended, and freed the pools of which nothing was out. */
	assert_null(mem_staging_get(MEM_KIND_TEST, 0, MEM_OUT));
	raw_close(&raw);
	reader_close(&reader);
	assert_int_equal(open_session(state), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_stay_until_they_are_taken),
		cmocka_unit_test(a_window_is_on_its_way),
		cmocka_unit_test(a_lost_channel_keeps_them_until_its_fence),
		cmocka_unit_test(a_dead_peer_reads_right_bytes),
		cmocka_unit_test(a_dead_peer_does_not_keep_them),
		cmocka_unit_test(nothing_is_left_of_a_peer),
		cmocka_unit_test(a_session_that_closes_gives_them_back),
	};

	setenv("TCPX_STAGING_BYTES", "8M", 1); /* read once, at the first call */
	return cmocka_run_group_tests(tests, open_all, close_session);
}
