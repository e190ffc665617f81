/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions with GPU memory over the stand-in driver: bytes, freed memory, what is let go. */
#include <dirent.h>
#include <malloc.h>
#include <sched.h>

#include "cuda_rig.h"
#include <tcpx/tcpx.h>

#define BYTES (5u << 20)

struct pair {
	tcpx_session *server, *client;
	tcpx_region mine, theirs, served;
	tcpx_peer peer;
};

/* The server's memory is on GPU 1, the client's on GPU 0. */
static void pair_open(struct pair *pair, cuda_ptr from, cuda_ptr to)
{
	TCPX_OPTS(tcpx_region_opts, here, .kind = TCPX_MEM_CUDA);
	TCPX_OPTS(tcpx_region_opts, there, .kind = TCPX_MEM_CUDA, .device = 1,
		  .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	uint8_t info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	uint16_t port;
	size_t len;

	assert_int_equal(tcpx_session_open(NULL, &pair->server), TCPX_OK);
	assert_int_equal(tcpx_session_listen(pair->server, NULL, &port), TCPX_OK);
	assert_int_equal(tcpx_session_info(pair->server, info, sizeof(info), &len), TCPX_OK);
	assert_int_equal(tcpx_region_register(pair->server, (void *)(uintptr_t)to, BYTES, &there,
					      &pair->served),
			 TCPX_OK);
	assert_int_equal(tcpx_region_export(pair->server, pair->served, token), TCPX_OK);
	assert_int_equal(tcpx_session_open(NULL, &pair->client), TCPX_OK);
	assert_int_equal(tcpx_session_connect(pair->client, info, len, NULL, &pair->peer), TCPX_OK);
	assert_int_equal(tcpx_region_register(pair->client, (void *)(uintptr_t)from, BYTES, &here,
					      &pair->mine),
			 TCPX_OK);
	assert_int_equal(
		tcpx_region_import(pair->client, pair->peer, token, sizeof(token), &pair->theirs),
		TCPX_OK);
}

static tcpx_status pair_move(struct pair *pair, enum tcpx_op op)
{
	tcpx_segment piece = {.local = pair->mine, .remote = pair->theirs, .length = BYTES};
	tcpx_request request;
	tcpx_status status;

	status = tcpx_request_start(pair->client, pair->peer, op, &piece, 1, NULL, &request);
	if (status == TCPX_OK) {
		status = tcpx_request_wait(pair->client, request, TCPX_WAIT_FOREVER, NULL);
		tcpx_request_release(pair->client, request);
	}
	return status;
}

static void pair_close(struct pair *pair)
{
	tcpx_session_close(pair->client);
	tcpx_session_close(pair->server);
}

static void fill(uint8_t *bytes, unsigned salt)
{
	for (unsigned i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)(i * 13 + i / 1021 + salt);
}

static void bytes_go_both_ways(void **state)
{
	cuda_ptr from = rig_alloc(0, BYTES), to = rig_alloc(1, BYTES);
	uint8_t *want = malloc(BYTES), *got = malloc(BYTES);
	struct pair pair;
	cuda_ctx now;

	(void)state;
	assert_true(want && got);
	pair_open(&pair, from, to);
	fill(want, 1);
	assert_int_equal(fake.write(from, want, BYTES), 0);
	assert_int_equal(pair_move(&pair, TCPX_OP_WRITE), TCPX_OK);
	assert_int_equal(fake.read(to, got, BYTES), 0);
	assert_memory_equal(got, want, BYTES);
	fill(want, 2);
	assert_int_equal(fake.write(to, want, BYTES), 0);
	assert_int_equal(pair_move(&pair, TCPX_OP_READ), TCPX_OK);
	assert_int_equal(fake.read(from, got, BYTES), 0);
	assert_memory_equal(got, want, BYTES);
	assert_int_equal(api->ctx_current(&now), CUDA_OK);
	assert_null(now);
	pair_close(&pair);
	free(want);
	free(got);
	rig_free(0, from);
	rig_free(1, to);
	assert_int_equal(fake.settle(0), 0); /* the last session let go of both devices */
}

static void freed_memory_is_refused_at_prepare(void **state)
{
	cuda_ptr from = rig_alloc(0, BYTES), to = rig_alloc(1, BYTES);
	struct pair pair;

	(void)state;
	pair_open(&pair, from, to);
	assert_int_equal(pair_move(&pair, TCPX_OP_WRITE), TCPX_OK);
	rig_free(0, from);
	assert_int_equal(pair_move(&pair, TCPX_OP_WRITE), TCPX_ERR_STALE);
	assert_non_null(strstr(tcpx_last_error()->what, "freed"));
	pair_close(&pair);
	rig_free(1, to);
	assert_int_equal(fake.settle(0), 0);
}

static unsigned pinned_kib(void)
{
	struct fakecuda_live live;

	(void)fake.live(&live);
	return live.pinned_kib;
}

/* What tcpx(7) says is pinned for a GPU: two pools, and less than 2.5 MiB in addition. The first
 * case, because the first session of a process fixes the size of its pools. */
static void pinned_memory_is_bounded(void **state)
{
	enum { POOL_KIB = 16 << 10, MORE_KIB = 2560, GPUS = 2 };
	cuda_ptr from = rig_alloc(0, BYTES), to = rig_alloc(1, BYTES);
	const unsigned before = pinned_kib();
	struct pair pair;
	unsigned full;

	(void)state;
	assert_int_equal(tcpx_option_set("TCPX_STAGING_BYTES", "16M"), TCPX_OK);
	pair_open(&pair, from, to);
	while (pinned_kib() - before < GPUS * 2 * POOL_KIB) /* tcpx-pin pins most of the pools */
		sched_yield();
	for (int i = 0; i < 8; i++) {
		assert_int_equal(pair_move(&pair, i % 2 ? TCPX_OP_WRITE : TCPX_OP_READ), TCPX_OK);
		full = pinned_kib() - before;
		assert_in_range(full, GPUS * 2 * POOL_KIB + 1,
				GPUS * (2 * POOL_KIB + MORE_KIB) - 1);
	}
	pair_close(&pair);
	rig_free(0, from);
	rig_free(1, to);
	assert_int_equal(fake.settle(0), 0);
	assert_int_equal(pinned_kib(), before);
}

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* A hundred runs in one process: contexts are retained once a GPU and released, and what the
 * process holds after the last run is what it held after the tenth. */
static void a_hundred_runs_leave_nothing(void **state)
{
	enum { RUNS = 100, WARM = 10, SLACK = 128 << 10 };
	cuda_ptr from = rig_alloc(0, BYTES), to = rig_alloc(1, BYTES);
	size_t bytes = 0, now;
	unsigned fds = 0;

	(void)state;
	for (unsigned run = 1; run <= RUNS; run++) {
		uint64_t retained = fake.calls("cuDevicePrimaryCtxRetain");
		struct fakecuda_live live;
		struct pair pair;

		pair_open(&pair, from, to);
		assert_int_equal(pair_move(&pair, run % 2 ? TCPX_OP_WRITE : TCPX_OP_READ), TCPX_OK);
		assert_int_equal(fake.calls("cuDevicePrimaryCtxRetain") - retained, 2);
		pair_close(&pair);
		assert_int_equal(fake.settle(2), 2); /* the two allocations of this test */
		(void)fake.live(&live);
		assert_int_equal(live.contexts, 0);
		assert_int_equal(live.host, 0);
		now = mallinfo2().uordblks;
		if (run == WARM) {
			bytes = now;
			fds = descriptors();
		}
	}
	assert_int_equal(descriptors(), fds);
	(void)bytes;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they count otherwise */
	assert_true(now <= bytes + SLACK);
#endif
	rig_free(0, from);
	rig_free(1, to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pinned_memory_is_bounded),
		cmocka_unit_test(bytes_go_both_ways),
		cmocka_unit_test(freed_memory_is_refused_at_prepare),
		cmocka_unit_test(a_hundred_runs_leave_nothing),
	};

	if (rig_open())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
