/* SPDX-License-Identifier: Apache-2.0 */
/* A guide and two comms as one channel. */
#include "messages_rig.h"

#include "base/error.h"
#include "base/rng.h"

static void payloads_stand_behind_their_headers(void **state)
{
	struct frame frame;
	struct rig rig;

	(void)state;
	rig_open(&rig, LONG_NS);
	for (unsigned end = 0; end < 2; end++)
		for (unsigned round = 0; round < 20; round++) {
			rig.comm[end].silent = round % 2;
			put_message(&rig, end, (uint8_t)round, 1 + round * 200);
			put_frame(&rig, end, (struct frame){.type = FRAME_NACK, .linear = 7});
			put_message(&rig, end, (uint8_t)~round, BYTES);
			get_message(&rig, !end, (uint8_t)round, 1 + round * 200);
			get_frame(&rig, !end, FRAME_NACK, &frame);
			assert_int_equal(frame.linear, 7);
			get_message(&rig, !end, (uint8_t)~round, BYTES);
		}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(rig.comm[i].nconsumed, 40);
	rig_close(&rig);
}

/* They say everything that those before them said, and whoever waits for a window needs them. */
static void acknowledgements_pass_what_waits(void **state)
{
	struct frame frame;
	struct rig rig;

	(void)state;
	rig_open(&rig, LONG_NS);
	rig.comm[0].comes = 0;
	put_message(&rig, 0, 1, 100);
	put_frame(&rig, 0, (struct frame){.type = FRAME_ACK, .linear = 1, .key = 1});
	get_frame(&rig, 1, FRAME_ACK, &frame);
	assert_int_equal(frame.linear, 1);
	put_frame(&rig, 0, (struct frame){.type = FRAME_ACK, .linear = 2, .key = 2});
	put_frame(&rig, 0, (struct frame){.type = FRAME_ACK, .linear = 3, .key = 3});
	do
		get_frame(&rig, 1, FRAME_ACK, &frame);
	while (frame.linear < 3);
	rig.comm[0].comes = 1;
	get_message(&rig, 1, 1, 100);
	rig_close(&rig);
}

/* Not within a frame, and one that is half given out stays what it is. */
/* One that covers a refusal says nothing good of what was refused. */
static void acknowledgements_do_not_pass_refusals(void **state)
{
	struct frame frame;
	struct rig rig;

	(void)state;
	rig_open(&rig, LONG_NS);
	put_message(&rig, 0, 9, 100);
	put_frame(&rig, 0, (struct frame){.type = FRAME_NACK, .linear = 7});
	put_frame(&rig, 0, (struct frame){.type = FRAME_NOP});
	put_frame(&rig, 0, (struct frame){.type = FRAME_ACK, .linear = 7, .key = 7});
	await_guide(&rig, 1);
	get_message(&rig, 1, 9, 100);
	get_frame(&rig, 1, FRAME_NACK, &frame);
	get_frame(&rig, 1, FRAME_ACK, &frame);
	get_frame(&rig, 1, FRAME_NOP, &frame);
	rig_close(&rig);
}

static void acknowledgements_come_between_frames(void **state)
{
	uint8_t bytes[FRAME_HEADER_BYTES], payload[100], trailer[FRAME_TRAILER_BYTES];
	struct frame frame;
	struct rig rig;

	(void)state;
	rig_open(&rig, LONG_NS);
	put_message(&rig, 0, 9, 100);
	get_all(&rig, 1, bytes, 20);
	put_frame(&rig, 0, (struct frame){.type = FRAME_ACK, .linear = 5, .key = 5});
	await_guide(&rig, 1);
	get_all(&rig, 1, bytes + 20, sizeof(bytes) - 20);
	assert_int_equal(wire_frame_decode(bytes, &frame), TCPX_OK);
	assert_int_equal(frame.type, FRAME_RDATA);
	get_all(&rig, 1, payload, sizeof(payload));
	assert_int_equal(payload[99], 9);
	get_all(&rig, 1, trailer, sizeof(trailer));
	get_all(&rig, 1, bytes, 30);
	put_frame(&rig, 0, (struct frame){.type = FRAME_ACK, .linear = 6, .key = 6});
	await_guide(&rig, 1);
	get_all(&rig, 1, bytes + 30, sizeof(bytes) - 30);
	assert_int_equal(wire_frame_decode(bytes, &frame), TCPX_OK);
	assert_int_equal(frame.linear, 5);
	get_frame(&rig, 1, FRAME_ACK, &frame);
	assert_int_equal(frame.linear, 6);
	rig_close(&rig);
}

/* Nothing is posted for what was not announced, so an idle channel may sleep. */
static void idle_channels_sleep(void **state)
{
	uint8_t data[64] = {0};
	struct rig rig;

	(void)state;
	rig_open(&rig, LONG_NS);
	assert_int_equal(restless(&rig, 0), 0);
	assert_int_equal(restless(&rig, 1), 0);
	rig.comm[0].ends = 0;
	assert_int_equal(post(&rig, 0, data, sizeof(data)), TCPX_OK);
	assert_int_equal(restless(&rig, 0), 1); /* somebody must poll for it */
	assert_int_equal(restless(&rig, 1), 0);
	assert_int_equal(rig.comm[0].nposted, 0);
	announce(&rig, 0, sizeof(data));
	await_guide(&rig, 1);
	rig.comm[0].comes = 0;
	assert_int_equal(get(&rig, 1, data, sizeof(data), &(size_t){0}), TCPX_IN_PROGRESS);
	assert_int_equal(rig.comm[0].nposted, 1);
	assert_int_equal(restless(&rig, 1), 1);
	rig.comm[0].comes = rig.comm[0].ends = UINT64_MAX;
	get_message(&rig, 1, 0, sizeof(data));
	assert_int_equal(get(&rig, 0, data, sizeof(data), &(size_t){0}), TCPX_IN_PROGRESS);
	assert_int_equal(restless(&rig, 0), 0);
	assert_int_equal(restless(&rig, 1), 0);
	rig_close(&rig);
}

static void what_the_plugin_puts_off_is_tried_again(void **state)
{
	uint8_t data[300];
	struct rig rig;

	(void)state;
	rig_open(&rig, LONG_NS);
	memset(data, 3, sizeof(data));
	rig.comm[0].put_off = 2;
	assert_int_equal(post(&rig, 0, data, sizeof(data)), TCPX_IN_PROGRESS);
	assert_int_equal(post(&rig, 0, data, sizeof(data)), TCPX_IN_PROGRESS);
	assert_int_equal(post(&rig, 0, data, sizeof(data)), TCPX_OK);
	rig.comm[0].put_off = 5;
	announce(&rig, 0, sizeof(data));
	put_frame(&rig, 0, (struct frame){.type = FRAME_NOP});
	await_guide(&rig, 1);
	assert_int_equal(get(&rig, 1, data, 1, &(size_t){0}), TCPX_IN_PROGRESS);
	assert_int_equal(restless(&rig, 1), 1);
	get_message(&rig, 1, 3, sizeof(data));
	assert_int_equal(rig.comm[0].put_off, 0);
	rig_close(&rig);
}

static void a_full_comm_takes_more_later(void **state)
{
	uint8_t byte = 1;
	struct rig rig;

	(void)state;
	rig_open(&rig, LONG_NS);
	rig.comm[0].ends = 0;
	for (unsigned i = 0; i < NET_COMM_WINDOW; i++)
		assert_int_equal(post(&rig, 0, &byte, 1), TCPX_OK);
	assert_int_equal(post(&rig, 0, &byte, 1), TCPX_IN_PROGRESS);
	rig.comm[0].ends = 1;
	assert_int_equal(get(&rig, 0, &byte, 1, &(size_t){0}), TCPX_IN_PROGRESS);
	assert_int_equal(post(&rig, 0, &byte, 1), TCPX_OK);
	rig_close(&rig);
}

static void expect_pieces(struct rig *rig, uint64_t seq, const struct base_frag *first, uint64_t n)
{
	struct net_message message;

	assert_int_equal(rig->end[1]->ops->message->take(rig->end[1], seq, &message), TCPX_OK);
	assert_ptr_equal(message.frags, first);
	assert_int_equal(message.nfrags, n);
	assert_int_equal(message.pool, POOL);
	assert_int_equal(message.pool_bytes, BYTES);
}

/* Behind its header nothing comes; its pages are the plugin's again in the order of messages,
 * whatever order they are given back in, and only then may the peer send another one. */
static void messages_in_pieces_are_taken(void **state)
{
	struct ncclnet_queue_meta *meta = calloc(1, sizeof(*meta));
	struct net_message none;
	struct frame frame;
	struct rig rig;

	(void)state;
	for (unsigned i = 0; i < NCCLNET_QUEUE_DEPTH; i++)
		meta->count[i] = i + 1;
	rig_open_with(&rig, LONG_NS, meta);
	for (unsigned i = 0; i < WINDOW; i++)
		put_message(&rig, 0, (uint8_t)i, 100);
	for (unsigned i = 0; i < WINDOW; i++)
		get_frame(&rig, 1, FRAME_RDATA, &frame);
	for (unsigned i = 0; i < WINDOW; i++)
		expect_pieces(&rig, i + 1, (const struct base_frag *)meta->pieces[i], i + 1);
	assert_int_equal(rig.end[1]->ops->message->take(rig.end[1], WINDOW + 1, &none),
			 TCPX_ERR_STATE);
	rig.end[1]->ops->message->give(rig.end[1], 2);
	assert_int_equal(rig.comm[0].nconsumed, 0);
	expect_counts(&rig, 1, (struct net_message_counts){0, 0, WINDOW, WINDOW, 1, 0});
	rig.end[1]->ops->message->give(rig.end[1], 1);
	assert_int_equal(rig.comm[0].nconsumed, 2);
	expect_counts(&rig, 1, (struct net_message_counts){0, 0, WINDOW, WINDOW, 2, 2});
	assert_int_equal(rig.end[1]->ops->message->take(rig.end[1], 1, &none), TCPX_ERR_STATE);
	put_message(&rig, 0, 7, 50);
	get_frame(&rig, 1, FRAME_RDATA, &frame);
	expect_pieces(&rig, 4, (const struct base_frag *)meta->pieces[3], 4);
	rig.end[1]->ops->message->give(rig.end[1], 3);
	rig.end[1]->ops->message->give(rig.end[1], 4);
	assert_int_equal(rig.comm[0].nconsumed, 4);
	assert_int_equal(restless(&rig, 1), 0);
	rig_close(&rig);
	free(meta);
}

/* Host memory that somebody else copies from: each message in one piece, in a slot of its own. */
static void whole_messages_are_taken(void **state)
{
	struct net_message message;
	struct frame frame;
	struct rig rig;

	(void)state;
	rig_open_whole(&rig, LONG_NS);
	for (unsigned round = 0; round < 7; round++) {
		uint64_t first = 1 + round * WINDOW;

		for (unsigned i = 0; i < WINDOW; i++)
			put_message(&rig, 0, (uint8_t)(round + i), 100 + i);
		for (unsigned i = 0; i < WINDOW; i++)
			get_frame(&rig, 1, FRAME_RDATA, &frame);
		for (unsigned i = WINDOW; i-- > 0;) {
			assert_int_equal(
				rig.end[1]->ops->message->take(rig.end[1], first + i, &message),
				TCPX_OK);
			assert_int_equal(message.nfrags, 1);
			assert_int_equal(message.frags->len, 100 + i);
			assert_int_equal(message.frags->dst, 0);
			assert_true(message.frags->src + 100 + i <= message.pool_bytes);
			for (unsigned at = 0; at < 100 + i; at++)
				assert_int_equal(rig.bounce[1][message.frags->src + at],
						 (uint8_t)(round + i));
			rig.end[1]->ops->message->give(rig.end[1], first + i);
		}
		assert_int_equal(rig.comm[0].nconsumed, (round + 1) * WINDOW);
	}
	rig_close(&rig);
}

/* Each stage on its own, on both ends. */
static void messages_are_counted(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, LONG_NS);
	rig.comm[0].ends = 1;
	rig.comm[0].comes = 0;
	put_message(&rig, 0, 1, 100);
	put_message(&rig, 0, 2, 100);
	await_guide(&rig, 1);
	turn(&rig, 0);
	turn(&rig, 1);
	expect_counts(&rig, 0, (struct net_message_counts){2, 1, 0, 0, 0, 0});
	expect_counts(&rig, 1, (struct net_message_counts){0, 0, 2, 0, 0, 0});
	rig.comm[0].comes = 2;
	get_message(&rig, 1, 1, 100);
	expect_counts(&rig, 1, (struct net_message_counts){0, 0, 2, 2, 1, 1});
	rig.comm[0].ends = 2;
	turn(&rig, 0);
	get_message(&rig, 1, 2, 100);
	expect_counts(&rig, 0, (struct net_message_counts){2, 2, 0, 0, 0, 0});
	expect_counts(&rig, 1, (struct net_message_counts){0, 0, 2, 2, 2, 2});
	rig_close(&rig);
}

/* What a peer must not do; each ends the channel, and stays its end. */
static void liars_lose_their_channel(void **state)
{
	static const uint8_t junk[FRAME_HEADER_BYTES] = {FRAME_NOP, 1};
	static const struct frame wrong[] = {
		{.type = FRAME_RDATA, .flags = FRAME_F_MSG, .payload_bytes = BYTES + 1},
		{.type = FRAME_RDATA, .payload_bytes = 10},
		{.type = FRAME_DATA, .flags = FRAME_F_MSG, .payload_bytes = 10, .table_bytes = 20},
		{.type = FRAME_NOTIFY, .payload_bytes = 10},
		{.type = FRAME_FINAL},
		{.type = FRAME_CREDIT},
	};
	struct rig rig;

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		rig_open(&rig, LONG_NS);
		put_frame(&rig, 0, wrong[i]);
		assert_int_equal(get_end(&rig, 1), TCPX_ERR_PROTOCOL);
		assert_int_equal(get_end(&rig, 1), TCPX_ERR_PROTOCOL);
		assert_int_equal(rig.comm[0].nposted, 0);
		rig_close(&rig);
	}
	rig_open(&rig, LONG_NS);
	rig.comm[0].comes = 0;
	for (unsigned i = 0; i < WINDOW + 1; i++)
		announce(&rig, 0, 10);
	assert_int_equal(get_end(&rig, 1), TCPX_ERR_PROTOCOL);
	rig_close(&rig);
	rig_open(&rig, LONG_NS);
	rig.comm[0].lies = true; /* the plugin: its channel goes, not the peer */
	put_message(&rig, 0, 1, 100);
	assert_int_equal(get_end(&rig, 1), TCPX_ERR_CHANNEL_LOST);
	assert_int_equal(rig.comm[0].nconsumed, 0);
	rig_close(&rig);
	rig_open(&rig, LONG_NS);
	assert_int_equal(put(&rig, 0, junk, sizeof(junk)), TCPX_OK);
	assert_int_equal(get_end(&rig, 1), TCPX_ERR_CORRUPT);
	rig_close(&rig);
}

static void lost_comms_are_told(void **state)
{
	uint8_t byte = 0;
	struct rig rig;

	(void)state;
	rig_open(&rig, LONG_NS);
	rig.comm[0].lost = true;
	assert_int_equal(post(&rig, 0, &byte, 1), TCPX_ERR_CHANNEL_LOST);
	assert_int_equal(get_end(&rig, 0), TCPX_ERR_CHANNEL_LOST);
	rig_close(&rig);
	rig_open(&rig, LONG_NS);
	rig.comm[0].comes = 0;
	put_message(&rig, 0, 1, 1);
	await_guide(&rig, 1);
	assert_int_equal(get(&rig, 1, &byte, 1, &(size_t){0}), TCPX_IN_PROGRESS);
	rig.comm[0].lost = true;
	assert_int_equal(get_end(&rig, 1), TCPX_ERR_CHANNEL_LOST);
	rig_close(&rig);
}

/* A plugin whose thread has died says nothing at all. */
static void silence_has_an_end(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, 1000000);
	rig.comm[0].comes = 1;
	put_message(&rig, 0, 1, 1);
	get_message(&rig, 1, 1, 1);
	put_frame(&rig, 0,
		  (struct frame){.type = FRAME_RDATA,
				 .flags = FRAME_F_MSG,
				 .xfer = 5,
				 .linear = 3145728,
				 .payload_bytes = 9});
	assert_int_equal(get_end(&rig, 1), TCPX_ERR_CHANNEL_LOST);
	assert_string_equal(error_last()->what,
			    "message 1 (tag 1, 9 bytes at offset 3145728 of a READ, frame 2) "
			    "was announced and did not arrive within 1 ms");
	rig_close(&rig);
	rig_open(&rig, 1000000);
	rig.comm[0].ends = 0;
	put_message(&rig, 0, 1, 1);
	assert_int_equal(get_end(&rig, 0), TCPX_ERR_CHANNEL_LOST);
	assert_string_equal(error_last()->what,
			    "message 0 (tag 0, 1 bytes at offset 0 of a READ, frame 1) was not "
			    "taken by the plugin within 1 ms");
	rig_close(&rig);
}

/* What came before the end of the guide is given out, and then the end. */
static void the_end_comes_last(void **state)
{
	struct frame frame;
	struct rig rig;

	(void)state;
	rig_open(&rig, LONG_NS);
	rig.comm[0].comes = 0;
	put_message(&rig, 0, 4, 50);
	put_frame(&rig, 0, (struct frame){.type = FRAME_NOP});
	rig.end[0]->ops->shutdown(rig.end[0]);
	rig.end[0]->ops->close(rig.end[0]);
	rig.end[0] = NULL;
	await_guide(&rig, 1);
	assert_int_equal(get(&rig, 1, &frame, 1, &(size_t){0}), TCPX_IN_PROGRESS);
	rig.comm[0].comes = 1;
	get_message(&rig, 1, 4, 50);
	get_frame(&rig, 1, FRAME_NOP, &frame);
	assert_true(get_end(&rig, 1) <= TCPX_ERR_CHANNEL_LOST);
	rig_close(&rig);
}

/* Both ways, in whatever portions, with everything late that can be. */
static void random_traffic_arrives(void **state)
{
	uint32_t sizes[2][400];
	unsigned sent[2] = {0}, got[2] = {0};
	struct rig rig;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 4711);
	rig_open(&rig, LONG_NS);
	while (got[0] < 400 || got[1] < 400) {
		unsigned end = (unsigned)rng_below(&rng, 2);
		struct net_comm *out = &rig.comm[end];

		out->comes = out->ndone + rng_below(&rng, 3);
		out->ends = out->nended + rng_below(&rng, 3);
		out->put_off = rng_one_in(&rng, 4);
		out->silent = rng_one_in(&rng, 2);
		turn(&rig, end);
		if (sent[end] < 400 && out->nsent - out->nconsumed < WINDOW &&
		    out->nsent - out->nended < NET_COMM_WINDOW && !out->put_off) {
			sizes[end][sent[end]] = 1 + (uint32_t)rng_below(&rng, BYTES);
			put_message(&rig, end, (uint8_t)sent[end], sizes[end][sent[end]]);
			sent[end]++;
		}
		if (got[!end] < sent[end] && rng_one_in(&rng, 2)) {
			out->comes = out->ends = UINT64_MAX;
			get_message(&rig, !end, (uint8_t)got[!end], sizes[end][got[!end]]);
			got[!end]++;
		}
	}
	rig_close(&rig);
}

static void wrong_options_are_refused(void **state)
{
	struct net_messages_opts opts = {
		.window = 17, .message_bytes = BYTES, .timeout_ns = LONG_NS};
	struct net_chan *chan;

	(void)state;
	assert_int_equal(net_messages_open(&opts, &chan), TCPX_ERR_INVALID);
	opts.window = 0;
	assert_int_equal(net_messages_open(&opts, &chan), TCPX_ERR_INVALID);
	opts.window = 1;
	opts.message_bytes = FRAME_PAYLOAD_MAX + 1;
	assert_int_equal(net_messages_open(&opts, &chan), TCPX_ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(payloads_stand_behind_their_headers),
		cmocka_unit_test(acknowledgements_pass_what_waits),
		cmocka_unit_test(acknowledgements_do_not_pass_refusals),
		cmocka_unit_test(acknowledgements_come_between_frames),
		cmocka_unit_test(messages_in_pieces_are_taken),
		cmocka_unit_test(whole_messages_are_taken),
		cmocka_unit_test(messages_are_counted),
		cmocka_unit_test(idle_channels_sleep),
		cmocka_unit_test(what_the_plugin_puts_off_is_tried_again),
		cmocka_unit_test(a_full_comm_takes_more_later),
		cmocka_unit_test(liars_lose_their_channel),
		cmocka_unit_test(lost_comms_are_told),
		cmocka_unit_test(silence_has_an_end),
		cmocka_unit_test(the_end_comes_last),
		cmocka_unit_test(random_traffic_arrives),
		cmocka_unit_test(wrong_options_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
