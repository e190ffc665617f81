/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that has proven itself and then breaks the rules: the error is typed and counted, the log
 * stays short, and what it may not touch stays as it is. */
#include <fcntl.h>
#include <sys/socket.h>

#include "raw_rig.h"
#include "wire/frame_codec.h"

#define CRC_COVERS 60
#define ROUNDS 200 /* of one fault, for the log */

static uint8_t memory[4096];
static _Atomic unsigned lines;

static void count_line(void *arg, enum tcpx_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
	lines++;
}

static _Atomic unsigned refusals; /* lines that name a piece that was refused */

static void count_refusal(void *arg, enum tcpx_log_level level, const char *line)
{
	(void)arg;
	if (level == TCPX_LOG_INFO && strstr(line, "may not write 8 bytes at offset "))
		refusals++;
}

static tcpx_counters counters_now(void)
{
	tcpx_counters counters = {.sz = sizeof(counters)};

	assert_int_equal(tcpx_session_counters(session, &counters), TCPX_OK);
	return counters;
}

/* A header that is right but for one thing. */
struct fault {
	const char *name;
	enum place place;
	struct frame frame;
	int byte;      /* of the header to change after encoding, or -1 */
	uint8_t value; /* what to put there */
	bool crc;      /* and make the checksum right again */
	tcpx_status status;
};

static const struct fault faults[] = {
	{"flipped bit, control",
	 CONTROL,
	 {.type = FRAME_HEARTBEAT},
	 30,
	 0x80,
	 false,
	 TCPX_ERR_PROTOCOL},
	{"flipped bit, data",
	 BULK,
	 {.type = FRAME_NOP, .epoch = 1, .seq = 1},
	 30,
	 0x80,
	 false,
	 TCPX_ERR_CORRUPT},
	{"version, control", CONTROL, {.type = FRAME_HEARTBEAT}, 1, 99, true, TCPX_ERR_PROTOCOL},
	{"version, data",
	 PRIO,
	 {.type = FRAME_NOP, .epoch = 1, .seq = 1},
	 1,
	 99,
	 true,
	 TCPX_ERR_VERSION},
	{"unknown type, control",
	 CONTROL,
	 {.type = FRAME_HEARTBEAT},
	 0,
	 200,
	 true,
	 TCPX_ERR_PROTOCOL},
	{"unknown type, data",
	 BULK,
	 {.type = FRAME_NOP, .epoch = 1, .seq = 1},
	 0,
	 200,
	 true,
	 TCPX_ERR_PROTOCOL},
	{"reserved flag",
	 PRIO,
	 {.type = FRAME_NOP, .epoch = 1, .seq = 1},
	 3,
	 0x80,
	 true,
	 TCPX_ERR_PROTOCOL},
	{"oversized, control",
	 CONTROL,
	 {.type = FRAME_FENCE, .payload_bytes = FRAME_CONTROL_MAX + 1},
	 -1,
	 0,
	 false,
	 TCPX_ERR_PROTOCOL},
	{"oversized payload",
	 BULK,
	 {.type = FRAME_DATA, .epoch = 1, .seq = 1, .payload_bytes = FRAME_PAYLOAD_MAX + 1},
	 -1,
	 0,
	 false,
	 TCPX_ERR_PROTOCOL},
	{"oversized table",
	 BULK,
	 {.type = FRAME_DATA, .epoch = 1, .seq = 1, .table_bytes = FRAME_TABLE_MAX + 1},
	 -1,
	 0,
	 false,
	 TCPX_ERR_PROTOCOL},
	{"comm, and no channels of messages were agreed on",
	 CONTROL,
	 {.type = FRAME_COMM, .key = FRAME_COMM_READY, .linear = 2, .epoch = 1},
	 -1,
	 0,
	 false,
	 TCPX_ERR_PROTOCOL},
	{"comm lost, of no channel",
	 CONTROL,
	 {.type = FRAME_COMM, .key = FRAME_COMM_LOST, .linear = UINT64_MAX, .epoch = 1},
	 -1,
	 0,
	 false,
	 TCPX_ERR_PROTOCOL},
	{"comm given up, of no channel",
	 CONTROL,
	 {.type = FRAME_COMM, .key = FRAME_COMM_FAILED, .linear = UINT64_MAX},
	 -1,
	 0,
	 false,
	 TCPX_ERR_PROTOCOL},
	{"data frame, control",
	 CONTROL,
	 {.type = FRAME_NOP, .seq = 1},
	 -1,
	 0,
	 false,
	 TCPX_ERR_PROTOCOL},
	{"control frame, data",
	 PRIO,
	 {.type = FRAME_HEARTBEAT, .epoch = 1},
	 -1,
	 0,
	 false,
	 TCPX_ERR_PROTOCOL},
	{"sequence with a hole",
	 BULK,
	 {.type = FRAME_NOP, .epoch = 1, .seq = 3},
	 -1,
	 0,
	 false,
	 TCPX_ERR_PROTOCOL},
	{"another epoch",
	 BULK,
	 {.type = FRAME_NOP, .epoch = 9, .seq = 1},
	 -1,
	 0,
	 false,
	 TCPX_ERR_PROTOCOL},
	{"acknowledges what was not sent",
	 BULK,
	 {.type = FRAME_ACK, .epoch = 1, .linear = 1000, .key = 1000},
	 -1,
	 0,
	 false,
	 TCPX_ERR_PROTOCOL},
	{"took what was not sent",
	 BULK,
	 {.type = FRAME_ACK, .epoch = 1, .key = 1000},
	 -1,
	 0,
	 false,
	 TCPX_ERR_PROTOCOL},
};

static void break_rule(const struct fault *fault)
{
	uint8_t header[FRAME_HEADER_BYTES];

	wire_frame_encode(&fault->frame, header);
	if (fault->byte >= 0)
		header[fault->byte] =
			fault->crc ? fault->value : header[fault->byte] ^ fault->value;
	if (fault->crc)
		fuzz_fix_crc(header, CRC_COVERS);
	say(fault->place, header, sizeof(header));
}

static void malformed_frames_are_typed_and_counted(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		tcpx_counters before = counters_now();
		tcpx_event event = {.sz = sizeof(event)};
		tcpx_error error = {.sz = sizeof(error)};

		connect_raw();
		break_rule(&faults[i]);
		event = await(TCPX_EVENT_PEER_DOWN);
		if (event.status != faults[i].status)
			fail_msg("%s: %s, not %s", faults[i].name, tcpx_status_name(event.status),
				 tcpx_status_name(faults[i].status));
		assert_int_equal(counters_now().protocol_errors, before.protocol_errors + 1);
		assert_int_equal(tcpx_peer_error(session, event.peer, &error), TCPX_OK);
		assert_int_equal(error.system_errno, 0);
		assert_int_equal(error.status, faults[i].status);
		assert_non_null(strstr(error.what, "raw"));
		assert_true(strlen(error.next) > 0);
		raw_close(&raw);
	}
}

/* A heartbeat that echoes a time we never said: no round trip is made of it. */
static void an_echo_of_no_time_of_ours(void **state)
{
	static const uint64_t times[] = {1ull << 63, (1ull << 63) + 1, UINT64_MAX, INT64_MAX};

	(void)state;
	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		struct frame beat = {.type = FRAME_HEARTBEAT, .offset = times[i]};
		tcpx_peer_info info = {.sz = sizeof(info)};
		tcpx_event event = {.sz = sizeof(event)};

		connect_raw();
		raw_control(&raw, &beat, NULL);
		break_rule(&faults[0]); /* behind it on the same link: its end says both came */
		event = await(TCPX_EVENT_PEER_DOWN);
		assert_int_equal(event.status, TCPX_ERR_PROTOCOL);
		assert_int_equal(tcpx_peer_query(session, event.peer, &info), TCPX_OK);
		assert_int_equal(info.rtt_ns, 0);
		raw_close(&raw);
	}
}

/* Half a frame and then the end, at each place: lost like any connection, and nothing hangs. */
static void truncated_frames(void **state)
{
	(void)state;
	for (enum place place = CONTROL; place < PLACES; place++) {
		struct frame frame = {.type = place == CONTROL ? FRAME_HEARTBEAT : FRAME_NOP,
				      .epoch = place != CONTROL,
				      .seq = place != CONTROL};
		uint8_t header[FRAME_HEADER_BYTES];
		tcpx_counters before = counters_now();
		tcpx_event event = {.sz = sizeof(event)};

		connect_raw();
		wire_frame_encode(&frame, header);
		say(place, header, sizeof(header) / 2);
		raw_close(&raw);
		event = await(TCPX_EVENT_PEER_DOWN);
		assert_true(event.status == TCPX_ERR_PEER_RESET ||
			    event.status == TCPX_ERR_PEER_CLOSED);
		assert_int_equal(counters_now().protocol_errors, before.protocol_errors);
	}
}

/* No call of ours fails by it: the error is not that of an earlier one. */
static void an_orderly_end_of_all_channels(void **state)
{
	tcpx_event event = {.sz = sizeof(event)};
	tcpx_error error = {.sz = sizeof(error)};

	(void)state;
	connect_raw();
	for (uint32_t i = 0; i < RAW_CHANNELS; i++)
		assert_int_equal(shutdown(raw.chan[i].fd, SHUT_WR), 0);
	event = await(TCPX_EVENT_PEER_DOWN);
	assert_int_equal(tcpx_peer_error(session, event.peer, &error), TCPX_OK);
	assert_int_equal(error.system_errno, 0);
	raw_close(&raw);
}

/* It connects by half and goes; meanwhile we connected to it, and have the handle of that link. */
static void a_handle_stays_when_its_peer_never_came_up(void **state)
{
	struct wire_info it = {.naddrs = 1, .name = "raw"};
	tcpx_peer_info info = {.sz = sizeof(info)};
	uint8_t blob[TCPX_INFO_MAX_BYTES];
	tcpx_peer peer;
	size_t len;

	(void)state;
	TCPX_OPTS(tcpx_connect_opts, at_once, .nonblocking = 1);
	raw_connect_half(&raw, port);
	memcpy(it.uuid, raw.uuid, sizeof(it.uuid));
	memcpy(it.incarnation, raw.uuid, sizeof(it.incarnation));
	it.addrs[0] = (struct wire_address){.family = 4, .port = 1, .bytes = {127, 0, 0, 1}};
	len = wire_info_encode(&it, blob, sizeof(blob));
	assert_int_equal(tcpx_session_connect(session, blob, len, &at_once, &peer), TCPX_OK);
	raw_close(&raw);
	assert_int_equal(await(TCPX_EVENT_PEER_DOWN).peer.id, peer.id);
	assert_int_equal(tcpx_peer_query(session, peer, &info), TCPX_OK);
	assert_int_equal(info.state, TCPX_PEER_DEAD);
	assert_int_equal(tcpx_peer_disconnect(session, peer), TCPX_OK);
	assert_int_equal(tcpx_peer_query(session, peer, &info), TCPX_ERR_STALE);
}

/* The peer says that every channel is lost before our sockets do: it ends by a status of its
 * class. */
static void fences_of_all_channels(void **state)
{
	tcpx_event event = {.sz = sizeof(event)};

	(void)state;
	connect_raw();
	for (uint32_t i = 0; i < RAW_CHANNELS; i++) {
		struct frame fence = {.type = FRAME_FENCE, .key = i, .epoch = 1};

		raw_control(&raw, &fence, NULL);
	}
	event = await(TCPX_EVENT_PEER_DOWN);
	assert_int_equal(event.status, TCPX_ERR_PEER_RESET);
	raw_close(&raw);
}

/* Keys that were guessed, of a region that is gone, without the right, outside: refused, counted
 * and named in the log each time, nothing is touched, the peer lives. */
static void accesses_are_refused_and_counted(void **state)
{
	TCPX_OPTS(tcpx_region_opts, opts, .rights = TCPX_RIGHT_READ);
	uint8_t token[TCPX_TOKEN_BYTES];
	uint64_t key = 0, gone;
	tcpx_region region;
	struct {
		uint64_t key, offset;
	} rows[5];

	(void)state;
	memset(memory, 0x77, sizeof(memory));
	for (int i = 0; i < 2; i++) {
		gone = key;
		assert_int_equal(
			tcpx_region_register(session, memory, sizeof(memory), &opts, &region),
			TCPX_OK);
		assert_int_equal(tcpx_region_export(session, region, token), TCPX_OK);
		memcpy(&key, token + 8, sizeof(key));
		if (!i)
			assert_int_equal(tcpx_region_deregister(session, region, -1), TCPX_OK);
		opts.rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE;
	}
	rows[0].key = key ^ 1; /* forged */
	rows[1].key = gone;    /* no longer registered */
	rows[2].key = rows[3].key = rows[4].key = key;
	rows[0].offset = rows[1].offset = 0;
	rows[2].offset = sizeof(memory);
	rows[3].offset = sizeof(memory) - 7;
	rows[4].offset = UINT64_MAX - 3; /* offset and length wrap */
	connect_raw();
	tcpx_log_set(count_refusal, NULL, TCPX_LOG_INFO);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct frame frame = {.type = FRAME_DATA,
				      .flags = FRAME_F_ACK,
				      .payload_bytes = 8,
				      .xfer = 1,
				      .key = rows[i].key,
				      .offset = rows[i].offset};
		uint64_t before = counters_now().remote_rejects;

		raw_send(&raw, 1, &frame, NULL, 0xee, FRAME_VALID, 0);
		assert_true(raw_settle(&raw));
		assert_int_equal(counters_now().remote_rejects, before + 1);
	}
	tcpx_log_set(NULL, NULL, TCPX_LOG_ERROR);
	assert_int_equal(refusals, sizeof(rows) / sizeof(*rows));
	for (size_t i = 0; i < sizeof(memory); i++)
		assert_int_equal(memory[i], 0x77);
	assert_true(raw.alive);
	raw_close(&raw);
	(void)await(TCPX_EVENT_PEER_DOWN);
	assert_int_equal(tcpx_region_deregister(session, region, -1), TCPX_OK);
}

/* Garbage and broken rules again and again: a few lines, and a count of what was left out. */
static void hear(uint8_t *bytes, size_t count)
{
	struct pollfd pfd = {.fd = raw.ctl.fd, .events = POLLIN};

	for (size_t have = 0; have < count;) {
		ssize_t n;

		assert_int_equal(poll(&pfd, 1, 20000), 1); /* a wide guard */
		n = read(raw.ctl.fd, bytes + have, count - have);
		assert_true(n > 0);
		have += (size_t)n;
	}
}

/* The next frame of that type that the session says over the control link. */
static struct frame heard(uint8_t type)
{
	uint8_t header[FRAME_HEADER_BYTES], payload[FRAME_CONTROL_MAX];
	struct frame frame = {0};

	while (frame.type != type) {
		hear(header, sizeof(header));
		assert_int_equal(wire_frame_decode(header, &frame), TCPX_OK);
		hear(payload, frame.payload_bytes);
	}
	return frame;
}

/* Of a later library, or with a descriptor that there is no way to: the memory is not opened, and
 * that is all. */
static void an_offer_that_cannot_be_opened(void **state)
{
	static const struct {
		uint64_t form;
		tcpx_status status;
	} rows[] = {
		{FRAME_SHARE_FD, TCPX_ERR_AGAIN},
		{FRAME_SHARE_FD + 1, TCPX_ERR_UNSUPPORTED},
		{UINT64_MAX, TCPX_ERR_UNSUPPORTED},
	};
	tcpx_counters before = counters_now();
	uint8_t handle[64] = {0};

	(void)state;
	connect_raw();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct frame offer = {.type = FRAME_SHARE,
				      .key = FRAME_SHARE_OFFER,
				      .seq = rows[i].form,
				      .xfer = 100 + i,
				      .payload_bytes = sizeof(handle)};
		struct frame answer;

		raw_control(&raw, &offer, handle);
		answer = heard(FRAME_SHARE);
		assert_int_equal(answer.key, FRAME_SHARE_ANSWER);
		assert_int_equal(answer.xfer, 100 + i);
		assert_int_equal(answer.linear, -rows[i].status);
	}
	assert_int_equal(counters_now().protocol_errors, before.protocol_errors);
	assert_int_equal(counters_now().peers_lost, before.peers_lost);
	raw_close(&raw);
	(void)await(TCPX_EVENT_PEER_DOWN);
}

static void the_log_stays_short(void **state)
{
	tcpx_counters before = counters_now(), after;

	(void)state;
	tcpx_log_set(count_line, NULL, TCPX_LOG_INFO);
	for (int i = 0; i < ROUNDS; i++) {
		struct sockaddr_storage addr = raw.addr;
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(struct sockaddr_in)),
				 0);
		assert_int_equal(write(fd, "GET / HTTP/1.1\r\n\r\n", 18), 18);
		while (read(fd, &addr, sizeof(addr)) > 0)
			;
		close(fd);
	}
	after = counters_now();
	assert_int_equal(after.preauth_rejects, before.preauth_rejects + ROUNDS);
	assert_in_range(lines, 1, 20);
	tcpx_log_set(count_line, NULL, TCPX_LOG_WARN);
	lines = 0;
	for (int i = 0; i < ROUNDS; i++) {
		connect_raw();
		break_rule(&faults[0]);
		(void)await(TCPX_EVENT_PEER_DOWN);
		raw_close(&raw);
	}
	assert_int_equal(counters_now().protocol_errors, after.protocol_errors + ROUNDS);
	assert_in_range(lines, 1, ROUNDS - 1);
	tcpx_log_set(NULL, NULL, TCPX_LOG_ERROR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(malformed_frames_are_typed_and_counted),
		cmocka_unit_test(an_echo_of_no_time_of_ours),
		cmocka_unit_test(truncated_frames),
		cmocka_unit_test(an_orderly_end_of_all_channels),
		cmocka_unit_test(a_handle_stays_when_its_peer_never_came_up),
		cmocka_unit_test(fences_of_all_channels),
		cmocka_unit_test(accesses_are_refused_and_counted),
		cmocka_unit_test(an_offer_that_cannot_be_opened),
		cmocka_unit_test(the_log_stays_short),
	};

	return cmocka_run_group_tests(tests, open_session, close_session);
}
