/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that do not pull what was filled for them hold all staging memory; another one's transfer
 * gets room all the same. */
#include "raw_rig.h"

#include "mem/slow.h"
#include "mem/staging.h"
#include "wire/table.h"

#define POOL_BYTES (32u << 20)
#define HALF (POOL_BYTES / 2)
#define PIECES 960u
#define PIECE_BYTES 65536u
#define READ_BYTES (24u << 20)
#define SLICE_BYTES (512u << 10)

static uint8_t source[READ_BYTES], got[READ_BYTES];
static struct raw idle[2];

static void ask_for_much(struct raw *peer, uint64_t key)
{
	static uint8_t table[FRAME_TABLE_MAX];
	struct frame frame = {
		.type = FRAME_READ_REQ, .xfer = 1, .offset = (uint64_t)PIECES * PIECE_BYTES};
	struct wire_table_writer writer;

	wire_table_begin(&writer, table, sizeof(table));
	for (uint32_t i = 0; i < PIECES; i++)
		wire_table_put(&writer, key, 0, PIECE_BYTES);
	frame.table_bytes = (uint32_t)wire_table_end(&writer);
	raw_send(peer, 1, &frame, table, 0, FRAME_VALID, 0);
}

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

/* A peer that asks for much and has no channel any more: what is filled for it stays. */
static void hold_half(struct raw *peer, struct mem_staging *pool, uint64_t key, uint64_t held)
{
	tcpx_peer accepted;

	*peer = (struct raw){.secret = raw.secret, .secret_bytes = raw.secret_bytes};
	raw_connect(peer, port);
	assert_int_equal(tcpx_session_accept(session, 20000000000, &accepted), TCPX_OK);
	(void)await(TCPX_EVENT_PEER_UP);
	ask_for_much(peer, key);
	await_used(pool, held + 1);
	for (uint32_t i = 0; i < RAW_CHANNELS; i++)
		raw_drop_channel(peer, i);
	await_used(pool, held + HALF);
}

struct reader {
	tcpx_session *session;
	tcpx_peer peer;
	tcpx_region mine, theirs;
	tcpx_request request;
};

static void reader_open(struct reader *reader, const uint8_t *token)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = "reader", .bind = "127.0.0.1",
		  .flags = TCPX_SESSION_NO_LOCAL);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	size_t len;

	assert_int_equal(tcpx_session_info(session, info, sizeof(info), &len), TCPX_OK);
	assert_int_equal(tcpx_session_open(&opts, &reader->session), TCPX_OK);
	assert_int_equal(tcpx_session_connect(reader->session, info, len, NULL, &reader->peer),
			 TCPX_OK);
	assert_int_equal(
		tcpx_region_register(reader->session, got, sizeof(got), NULL, &reader->mine),
		TCPX_OK);
	assert_int_equal(tcpx_region_import(reader->session, reader->peer, token, TCPX_TOKEN_BYTES,
					    &reader->theirs),
			 TCPX_OK);
}

static void reader_start(struct reader *reader)
{
	tcpx_segment piece = {
		.local = reader->mine, .remote = reader->theirs, .length = READ_BYTES};

	assert_int_equal(tcpx_request_start(reader->session, reader->peer, TCPX_OP_READ, &piece, 1,
					    NULL, &reader->request),
			 TCPX_OK);
}

static void who_does_not_pull_makes_room(void **state)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = TCPX_MEM_SLOW, .rights = TCPX_RIGHT_READ);
	uint8_t token[TCPX_TOKEN_BYTES];
	struct mem_staging *pool;
	struct reader reader;
	tcpx_region region;
	uint64_t key;

	(void)state;
	for (uint32_t i = 0; i < READ_BYTES; i++)
		source[i] = (uint8_t)(i * 7 + i / 1021);
	assert_int_equal(tcpx_region_register(session, source, sizeof(source), &opts, &region),
			 TCPX_OK);
	assert_int_equal(tcpx_region_export(session, region, token), TCPX_OK);
	memcpy(&key, token + 8, sizeof(key));
	pool = mem_staging_get(TCPX_MEM_SLOW, 0, MEM_OUT);
	assert_non_null(pool);
	reader_open(&reader, token);
	hold_half(&idle[0], pool, key, 0);
	hold_half(&idle[1], pool, key, HALF);
	/* Nothing that is begun ends: so all room that the reader gets was another's. Its half of
	 * the pool, one slice it had at once in other memory, and one of the peer that gave. */
	mem_slow_hold(1);
	reader_start(&reader);
	mem_slow_await(HALF / SLICE_BYTES + 1 + 1);
	assert_int_equal(mem_staging_used(pool), POOL_BYTES);
	assert_false(mem_staging_short(pool, NULL)); /* and he who gave does not want it back */
	mem_slow_hold(0);
	assert_int_equal(tcpx_request_wait(reader.session, reader.request, TCPX_WAIT_FOREVER, NULL),
			 TCPX_OK);
	assert_memory_equal(got, source, sizeof(got));
	tcpx_request_release(reader.session, reader.request);
	tcpx_session_close(reader.session);
	for (int i = 0; i < 2; i++)
		raw_close(&idle[i]);
}

static int close_all(void **state)
{
	for (int i = 0; i < 2; i++)
		for (uint32_t k = 0; k < RAW_CHANNELS; k++)
			free(idle[i].chan[k].rest);
	return close_session(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_does_not_pull_makes_room),
	};

	setenv("TCPX_STAGING_BYTES", "32M", 1); /* read once, at the first call */
	return cmocka_run_group_tests(tests, open_session, close_all);
}
