/* SPDX-License-Identifier: Apache-2.0 */
/* serve and a client that does not keep to the protocol: it is refused in words, nothing breaks. */
#include <tcpx/tcpx.h>

#include "base/clock.h"
#include "base/rng.h"
#include "perf_service_priv.h"
#include "perf_side.h"
#include "unit.h"

#define LIMIT (4ull << 20)
#define HANG_NS (60 * CLOCK_S_NS)

/* A session that is its own client, and the service of that client. */
struct rig {
	tcpx_session *server, *client;
	tcpx_peer to_server, to_client;
	struct perf_house house;
	struct perf_service *service;
	uint32_t id;
};

static int setup(void **state)
{
	static struct rig rig;
	TCPX_OPTS(tcpx_listen_opts, listen, .port = 0);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	uint16_t port;
	size_t len;

	memset(&rig, 0, sizeof(rig));
	assert_int_equal(tcpx_session_open(NULL, &rig.server), TCPX_OK);
	assert_int_equal(tcpx_session_open(NULL, &rig.client), TCPX_OK);
	assert_int_equal(tcpx_session_listen(rig.server, &listen, &port), TCPX_OK);
	assert_int_equal(tcpx_session_info(rig.server, info, sizeof(info), &len), TCPX_OK);
	assert_int_equal(tcpx_session_connect(rig.client, info, len, NULL, &rig.to_server),
			 TCPX_OK);
	assert_int_equal(tcpx_session_accept(rig.server, HANG_NS, &rig.to_client), TCPX_OK);
	rig.house.session = rig.server;
	rig.house.memory_limit = LIMIT;
	rig.house.kinds = 1u << TCPX_MEM_HOST;
	assert_int_equal(perf_service_start(&rig.house, rig.to_client, &rig.service), TCPX_OK);
	*state = &rig;
	return 0;
}

static int teardown(void **state)
{
	struct rig *rig = *state;

	perf_service_stop(rig->service);
	perf_service_join(rig->service);
	assert_int_equal(rig->house.memory_used, 0);
	tcpx_session_close(rig->client);
	tcpx_session_close(rig->server);
	return 0;
}

/* Bytes as they come from the client's notification; the answer in reply. */
static void ask_bytes(struct rig *rig, const void *data, size_t len, struct perf_message *reply)
{
	tcpx_notification note = {.sz = sizeof(note)};

	assert_int_equal(perf_service_give(rig->service, data, len), 0);
	assert_int_equal(tcpx_notify_take(rig->client, HANG_NS, &note), TCPX_OK);
	assert_int_equal(perf_message_decode(note.data, note.bytes, reply), 0);
	assert_int_equal(reply->is_reply, 1);
	tcpx_notification_release(rig->client, &note);
}

static void ask(struct rig *rig, uint8_t type, const void *body, size_t size, const void *blob,
		size_t blob_len, struct perf_message *reply)
{
	uint8_t buf[PERF_MESSAGE_MAX];
	struct perf_message m;

	perf_message_init(&m, type, ++rig->id);
	if (size)
		perf_message_put(&m, body, size);
	if (blob_len)
		perf_message_blob(&m, blob, blob_len);
	ask_bytes(rig, buf, perf_message_encode(&m, buf), reply);
	assert_int_equal(reply->id, rig->id);
}

static void hello(struct rig *rig)
{
	struct perf_message reply;
	struct perf_welcome welcome;

	ask(rig, PERF_HELLO, NULL, 0, NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_DONE);
	assert_int_equal(perf_message_get(&reply, &welcome, sizeof(welcome)), 0);
	assert_int_equal(welcome.memory_limit, LIMIT);
}

static const struct perf_spec good = {
	.op = TCPX_OP_WRITE,
	.working_set = 1 << 20,
	.size = 64 << 10,
	.batch = 1,
	.depth = 4,
	.kind = TCPX_MEM_HOST,
	.seed = 1,
	.check = 1,
};

static void ask_row(struct rig *rig, const struct perf_spec *spec, enum perf_answer status,
		    const char *words)
{
	uint8_t tokens[PERF_TOKENS_BYTES] = {0};
	struct perf_message reply;

	ask(rig, PERF_ROW, spec, sizeof(*spec), tokens, sizeof(tokens), &reply);
	assert_int_equal(reply.status, status);
	if (words && !strstr((char *)reply.blob, words))
		fail_msg("\"%s\" does not say \"%s\"", (char *)reply.blob, words);
}

static void nothing_is_done_before_the_hello(void **state)
{
	ask_row(*state, &good, PERF_REFUSED, "hello");
}

static void wrong_rows_are_refused_in_words(void **state)
{
	struct rig *rig = *state;
	struct perf_spec spec = good;

	hello(rig);
	spec.op = TCPX_OP_RECV;
	ask_row(rig, &spec, PERF_REFUSED, "operation");
	spec = good;
	spec.size = 0;
	ask_row(rig, &spec, PERF_REFUSED, "size");
	spec = good;
	spec.size = spec.working_set + 1;
	ask_row(rig, &spec, PERF_REFUSED, "size");
	spec = good;
	spec.batch = 3;
	ask_row(rig, &spec, PERF_REFUSED, "batch");
	spec = good;
	spec.batch = 1ull << 40;
	ask_row(rig, &spec, PERF_REFUSED, "batch");
	spec = good;
	spec.working_set = LIMIT + 1;
	ask_row(rig, &spec, PERF_REFUSED, "max-memory");
	spec = good;
	spec.working_set = UINT64_MAX;
	spec.bidir = 1;
	ask_row(rig, &spec, PERF_REFUSED, "max-memory");
	spec = good;
	spec.kind = 1000;
	ask_row(rig, &spec, PERF_REFUSED, "kind");
	spec = good;
	spec.device = 64;
	ask_row(rig, &spec, PERF_REFUSED, "device");
	spec = good;
	spec.kind = TCPX_MEM_CUDA;
	ask_row(rig, &spec, PERF_REFUSED, "serve --mem");
	ask_row(rig, &good, PERF_DONE, NULL);
}

static void gpus_that_are_not_allowed_are_refused(void **state)
{
	static const uint64_t devices[] = {0, 3, 63, 64, 1ull << 32, UINT64_MAX};
	struct rig *rig = *state;
	struct perf_where where = {.kind = TCPX_MEM_CUDA, .device = 2};
	struct perf_ceil_gpu ceiling = {.device = 2, .d2h = 1};
	struct perf_message reply;

	hello(rig);
	ask(rig, PERF_PLACE, &where, 8, NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
	ask(rig, PERF_PLACE, &where, sizeof(where), NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
	ask(rig, PERF_CEIL_GPU, &ceiling, sizeof(ceiling), NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
	rig->house.kinds |= 1u << TCPX_MEM_CUDA;
	rig->house.gpus = 1u << 2;
	for (unsigned i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		where.device = devices[i];
		ask(rig, PERF_PLACE, &where, sizeof(where), NULL, 0, &reply);
		assert_int_equal(reply.status, PERF_REFUSED);
		assert_non_null(strstr((char *)reply.blob, "serve --mem"));
	}
	where.kind = UINT64_MAX;
	ask(rig, PERF_PLACE, &where, sizeof(where), NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
	where.kind = TCPX_MEM_HOST;
	ask(rig, PERF_PLACE, &where, sizeof(where), NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_DONE);
}

static void windows_out_of_order_or_too_large_are_refused(void **state)
{
	struct rig *rig = *state;
	struct perf_window window = {.number = 1, .used = 16};
	struct perf_verdict verdict;
	struct perf_message reply;

	hello(rig);
	ask_row(rig, &good, PERF_DONE, NULL);
	ask(rig, PERF_END, &window, sizeof(window), NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
	window.used = 17; /* 1 MiB / 64 KiB is 16 */
	ask(rig, PERF_ARM, &window, sizeof(window), NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
	window.used = 16;
	ask(rig, PERF_ARM, &window, sizeof(window), NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_DONE);
	ask(rig, PERF_ARM, &window, sizeof(window), NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
	ask(rig, PERF_GO, &window, sizeof(window), NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
	ask(rig, PERF_END, &window, sizeof(window), NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_DONE);
	assert_int_equal(perf_message_get(&reply, &verdict, sizeof(verdict)), 0);
	/* nothing was written: nearly every byte is missing */
	assert_true(verdict.wrong > (1u << 20) * 9 / 10);
}

static void unknown_and_malformed_questions(void **state)
{
	struct rig *rig = *state;
	struct perf_message reply;

	hello(rig);
	ask(rig, 99, NULL, 0, NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
	ask(rig, PERF_ROW, NULL, 0, NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
	ask(rig, PERF_CEIL_ARM, NULL, 0, NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
	ask(rig, PERF_CEIL_OPEN, &good, sizeof(good), "x", 1, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
}

/* Whatever comes, the next orderly question gets its answer. */
static void random_messages_break_nothing(void **state)
{
	struct rig *rig = *state;
	uint8_t tokens[PERF_TOKENS_BYTES] = {0}, buf[PERF_MESSAGE_MAX];
	struct perf_message m, reply;
	struct rng rng;

	rng_seed(&rng, 4);
	hello(rig);
	for (unsigned i = 0; i < 3000; i++) {
		struct perf_spec spec = good;
		uint64_t *words = (uint64_t *)&spec;

		perf_message_init(&m, (uint8_t)rng_range(&rng, 1, 12), i);
		if (m.type == PERF_CEIL_OPEN)
			continue; /* it would open ports by the thousand */
		words[rng_below(&rng, sizeof(spec) / 8)] =
			rng_one_in(&rng, 2) ? rng_u64(&rng) : rng_below(&rng, 20);
		rng_fill(&rng, tokens, rng_one_in(&rng, 2) ? sizeof(tokens) : 0);
		perf_message_put(&m, &spec, rng_one_in(&rng, 3) ? 40 : sizeof(spec));
		perf_message_blob(&m, tokens, sizeof(tokens));
		ask_bytes(rig, buf, perf_message_encode(&m, buf), &reply);
	}
	ask(rig, PERF_ROW_END, NULL, 0, NULL, 0, &reply);
	hello(rig);
	ask_row(rig, &good, PERF_DONE, NULL);
}

static void a_flood_is_told_to_the_dispatcher(void **state)
{
	struct rig *rig = *state;
	uint8_t buf[PERF_MESSAGE_MAX];
	struct perf_message m;
	size_t len;
	int full = 0;

	len = perf_message_encode(perf_message_init(&m, PERF_HELLO, 1), buf);
	for (unsigned i = 0; i < 1000000 && !full; i++)
		full = perf_service_give(rig->service, buf, len);
	assert_int_equal(full, -1);
	assert_int_equal(perf_service_give(rig->service, buf, PERF_MESSAGE_MAX + 1), -1);
}

static void facts_come_in_parts(void **state)
{
	struct rig *rig = *state;
	struct perf_facts_ask from = {0};
	struct perf_facts_part part = {.total = 1};
	struct perf_message reply;
	static char text[256 << 10];

	ask(rig, PERF_FACTS, &from, sizeof(from), NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED); /* no hello */
	hello(rig);
	ask(rig, PERF_FACTS, NULL, 0, NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_REFUSED);
	while (from.offset < part.total) {
		ask(rig, PERF_FACTS, &from, sizeof(from), NULL, 0, &reply);
		assert_int_equal(reply.status, PERF_DONE);
		assert_int_equal(perf_message_get(&reply, &part, sizeof(part)), 0);
		assert_true(part.real_ns > 0 && part.total < sizeof(text));
		assert_true(reply.blob_len > 0);
		memcpy(text + from.offset, reply.blob, reply.blob_len);
		from.offset += reply.blob_len;
	}
	assert_int_equal(from.offset, part.total);
	assert_memory_equal(text, "format=1\n", 9);
	assert_string_equal(text + part.total - 6, "end=1\n");
	assert_non_null(strstr(text, "\nkernel="));
	/* beyond the end there is the clock alone */
	from.offset = UINT64_MAX;
	ask(rig, PERF_FACTS, &from, sizeof(from), NULL, 0, &reply);
	assert_int_equal(reply.status, PERF_DONE);
	assert_int_equal(reply.blob_len, 0);
}

static void a_client_that_is_gone_ends_the_filling_of_buffers(void **state)
{
	struct rig *rig = *state;
	struct perf_side *side = &rig->service->side;

	assert_int_equal(side->leave.ask(side->leave.arg), TCPX_OK);
	perf_service_stop(rig->service);
	assert_int_equal(side->leave.ask(side->leave.arg), TCPX_ERR_CANCELLED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_done_before_the_hello),
		TEST(wrong_rows_are_refused_in_words),
		TEST(gpus_that_are_not_allowed_are_refused),
		TEST(windows_out_of_order_or_too_large_are_refused),
		TEST(unknown_and_malformed_questions),
		TEST(random_messages_break_nothing),
		TEST(facts_come_in_parts),
		TEST(a_client_that_is_gone_ends_the_filling_of_buffers),
		TEST(a_flood_is_told_to_the_dispatcher),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
