/* SPDX-License-Identifier: Apache-2.0 */
/* What was filled for peers that do not take it holds all staging memory; another one's transfer
 * gets room all the same. */
#include "raw_rig.h"

#include "parts/slow.h"
#include "mem/staging.h"

#define POOL_BYTES (32u << 20)
#define HALF (POOL_BYTES / 2)
#define BYTES (24u << 20)
#define SLICE_BYTES (128u << 10) /* no smaller chunk begins a transfer */

#define TRIES 5

static uint8_t source[BYTES], got[BYTES];
static struct raw idle[2];

/* So many bytes of the pool are out, and no copy is under way. */
static void await_used(struct mem_staging *pool, uint64_t bytes)
{
	struct pollfd nothing = {.fd = -1};

	for (int i = 0; mem_staging_used(pool) < bytes; i++) {
		assert_true(i < 20000); /* a wide guard */
		(void)poll(&nothing, 1, 1);
	}
	mem_slow_settle();
}

/* A WRITE into staged memory of a peer that never grants any: it is filled ahead. */
static tcpx_request hold_half(struct raw *peer, tcpx_region region, const uint8_t *token)
{
	tcpx_segment piece = {.local = region, .length = BYTES};
	tcpx_request request;
	tcpx_peer accepted;

	*peer = (struct raw){.name = peer == idle ? "one" : "two",
			     .secret = raw.secret,
			     .secret_bytes = raw.secret_bytes};
	raw_connect(peer, port);
	assert_int_equal(tcpx_session_accept(session, 20000000000, &accepted), TCPX_OK);
	(void)await(TCPX_EVENT_PEER_UP);
	assert_int_equal(
		tcpx_region_import(session, accepted, token, TCPX_TOKEN_BYTES, &piece.remote),
		TCPX_OK);
	assert_int_equal(
		tcpx_request_start(session, accepted, TCPX_OP_WRITE, &piece, 1, NULL, &request),
		TCPX_OK);
	return request;
}

struct reader {
	tcpx_session *session;
	tcpx_peer peer;
	tcpx_region mine, theirs;
	tcpx_request request;
};

static void reader_open(struct reader *reader, const uint8_t *token)
{
	tcpx_peer accepted;
	TCPX_OPTS(tcpx_session_opts, opts, .name = "reader", .bind = "127.0.0.1",
		  .flags = TCPX_SESSION_NO_LOCAL, .chunk_bytes = SLICE_BYTES);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	size_t len;

	assert_int_equal(tcpx_session_info(session, info, sizeof(info), &len), TCPX_OK);
	assert_int_equal(tcpx_session_open(&opts, &reader->session), TCPX_OK);
	assert_int_equal(tcpx_session_connect(reader->session, info, len, NULL, &reader->peer),
			 TCPX_OK);
	assert_int_equal(tcpx_session_accept(session, 20000000000, &accepted), TCPX_OK);
	assert_int_equal(
		tcpx_region_register(reader->session, got, sizeof(got), NULL, &reader->mine),
		TCPX_OK);
	assert_int_equal(tcpx_region_import(reader->session, reader->peer, token, TCPX_TOKEN_BYTES,
					    &reader->theirs),
			 TCPX_OK);
}

static void reader_start(struct reader *reader)
{
	tcpx_segment piece = {.local = reader->mine, .remote = reader->theirs, .length = BYTES};

	assert_int_equal(tcpx_request_start(reader->session, reader->peer, TCPX_OP_READ, &piece, 1,
					    NULL, &reader->request),
			 TCPX_OK);
}

/* Two peers hold the whole pool, and a third one reads. Returns whether exactly one of the two gave
 * its room. Both give if the third has not taken the room of the first when the second is asked,
 * which depends on the threads. */
static bool one_makes_room(struct mem_staging *pool, tcpx_region region, const uint8_t *token)
{
	tcpx_request requests[2];
	struct reader reader;
	bool one;

	reader_open(&reader, token);
	for (int i = 0; i < 2; i++) {
		requests[i] = hold_half(&idle[i], region, token);
		await_used(pool, (uint64_t)(i + 1) * HALF);
	}
	assert_false(mem_staging_short(pool, NULL)); /* they are in no hurry */
	/* Nothing that is begun ends: so all room that the reader gets was another's. It gets its
	 * half of the pool; the first slice is in other memory, its place in the first block is
	 * not used. */
	mem_slow_settle(); /* the copies of the two have ended, too */
	mem_slow_hold(1);
	reader_start(&reader);
	mem_slow_await(HALF / SLICE_BYTES);
	one = mem_slow_pending() == HALF / SLICE_BYTES && mem_staging_used(pool) == POOL_BYTES;
	mem_slow_hold(0);
	assert_int_equal(tcpx_request_wait(reader.session, reader.request, TCPX_WAIT_FOREVER, NULL),
			 TCPX_OK);
	assert_memory_equal(got, source, sizeof(got));
	tcpx_request_release(reader.session, reader.request);
	tcpx_session_close(reader.session);
	for (int i = 0; i < 2; i++) {
		raw_close(&idle[i]);
		assert_int_not_equal(
			tcpx_request_wait(session, requests[i], TCPX_WAIT_FOREVER, NULL), TCPX_OK);
		tcpx_request_release(session, requests[i]);
		for (uint32_t k = 0; k < RAW_CHANNELS; k++)
			free(idle[i].chan[k].rest);
	}
	return one;
}

static void who_does_not_take_it_makes_room(void **state)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = MEM_KIND_TEST,
		  .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	uint8_t token[TCPX_TOKEN_BYTES];
	struct mem_staging *pool;
	tcpx_region region;
	bool one = false;

	(void)state;
	for (uint32_t i = 0; i < BYTES; i++)
		source[i] = (uint8_t)(i * 7 + i / 1021);
	assert_int_equal(tcpx_region_register(session, source, sizeof(source), &opts, &region),
			 TCPX_OK);
	assert_int_equal(tcpx_region_export(session, region, token), TCPX_OK);
	pool = mem_staging_get(MEM_KIND_TEST, 0, MEM_OUT);
	assert_non_null(pool);
	for (int i = 0; i < TRIES && !one; i++) {
		memset(got, 0, sizeof(got));
		one = one_makes_room(pool, region, token);
	}
	assert_true(one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_does_not_take_it_makes_room),
	};

	setenv("TCPX_STAGING_BYTES", "32M", 1); /* read once, at the first call */
	/* Those that take nothing answer nothing either: that they die is not to make room. */
	setenv("TCPX_SILENT_MS", "60000", 1);
	setenv("TCPX_STOPPED_MS", "600000", 1);
	return cmocka_run_group_tests(tests, open_session, close_session);
}
