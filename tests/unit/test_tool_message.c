/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of perf and serve: round trips, and what is refused. */
#include "base/rng.h"
#include "perf_message.h"
#include "unit.h"

static size_t sample(uint8_t buf[PERF_MESSAGE_MAX], struct perf_message *m)
{
	struct perf_spec spec = {1, 2, 3, 4, 5, 6, 0, 8, 1};

	perf_message_init(m, PERF_ROW, 77);
	m->status = PERF_REFUSED;
	m->is_reply = 1;
	perf_message_put(m, &spec, sizeof(spec));
	assert_int_equal(perf_message_blob(m, "tokens", 6), 0);
	return perf_message_encode(m, buf);
}

static void round_trip_keeps_everything(void **state)
{
	uint8_t buf[PERF_MESSAGE_MAX];
	struct perf_message m, back;
	struct perf_spec spec;
	struct perf_ran ran;
	size_t len = sample(buf, &m);

	(void)state;
	assert_int_equal(perf_message_decode(buf, len, &back), 0);
	assert_int_equal(back.type, PERF_ROW);
	assert_int_equal(back.id, 77);
	assert_int_equal(back.status, PERF_REFUSED);
	assert_int_equal(back.is_reply, 1);
	assert_int_equal(perf_message_get(&back, &spec, sizeof(spec)), 0);
	assert_int_equal(spec.seed, 8);
	assert_int_equal(perf_message_get(&back, &ran, sizeof(ran)), -1);
	assert_string_equal((char *)back.blob, "tokens");
}

static void every_cut_and_every_longer_one_is_refused(void **state)
{
	uint8_t buf[PERF_MESSAGE_MAX + 1] = {0};
	struct perf_message m, back;
	size_t len = sample(buf, &m);

	(void)state;
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(perf_message_decode(buf, cut, &back), -1);
	assert_int_equal(perf_message_decode(buf, len + 1, &back), -1);
}

static void another_version_is_told_apart(void **state)
{
	uint8_t buf[PERF_MESSAGE_MAX];
	struct perf_message m, back;
	size_t len = sample(buf, &m);

	(void)state;
	buf[4] = PERF_PROTOCOL + 1;
	assert_int_equal(perf_message_decode(buf, len, &back), -2);
}

static void flipped_bytes_never_leave_the_bounds(void **state)
{
	uint8_t good[PERF_MESSAGE_MAX], buf[PERF_MESSAGE_MAX];
	struct perf_message m, back;
	size_t len = sample(good, &m);
	struct rng rng;

	(void)state;
	rng_seed(&rng, 3);
	for (unsigned i = 0; i < 100000; i++) {
		memcpy(buf, good, len);
		for (unsigned k = 0; k < 3; k++)
			buf[rng_below(&rng, len)] = (uint8_t)rng_u64(&rng);
		if (perf_message_decode(buf, len, &back))
			continue;
		assert_true(back.nwords <= PERF_WORDS_MAX);
		assert_true(back.blob_len <= PERF_BLOB_MAX);
		assert_int_equal(back.blob[back.blob_len], 0);
	}
}

static void a_blob_that_does_not_fit_is_refused(void **state)
{
	static uint8_t large[PERF_BLOB_MAX + 1];
	struct perf_message m;

	(void)state;
	perf_message_init(&m, PERF_ROW, 1);
	assert_int_equal(perf_message_blob(&m, large, sizeof(large)), -1);
	assert_int_equal(perf_message_blob(&m, large, PERF_BLOB_MAX), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip_keeps_everything),
		cmocka_unit_test(every_cut_and_every_longer_one_is_refused),
		cmocka_unit_test(another_version_is_told_apart),
		cmocka_unit_test(flipped_bytes_never_leave_the_bounds),
		cmocka_unit_test(a_blob_that_does_not_fit_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
