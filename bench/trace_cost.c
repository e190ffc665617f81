/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recorded call costs beyond the call itself, by the TSC and by clock_gettime; and files for
 * tcpx trace. Usage: trace_cost [clock] | trace_cost make FILE RECORDS [INDEX of one that differs]
 */
#include <string.h>
#include <unistd.h>

#include "abi/ncclnet.h"
#include "bench_util.h"
#include "trace/file.h"
#include "trace/observe.h"

#define CALLS 200000
#define ROUNDS 201
#define BATCH 4000 /* messages that fit into a ring; the writer has time between two batches */
#define PAUSE_US 35000

/* The plugin: calls through a table, as a host makes them, that do next to nothing. */
static char comm_object[64], request_objects[16][64];
static unsigned posted;

static __attribute__((noinline)) ncclnet_result
stub_irecv(void *comm, int count, void **data, int *bytes, int *tags, void **mrs, void **request)
{
	(void)comm;
	(void)count;
	(void)data;
	(void)bytes;
	(void)tags;
	(void)mrs;
	*request = request_objects[posted++ % 16];
	return 0;
}

static int test_done;
static __attribute__((noinline)) ncclnet_result stub_test(void *request, int *done, int *sizes)
{
	(void)request;
	(void)sizes;
	*done = test_done;
	return 0;
}

static __attribute__((noinline)) ncclnet_result stub_consumed(void *comm, int count, void *request)
{
	(void)comm;
	(void)count;
	(void)request;
	return 0;
}

static struct ncclnet_table_v7 stub = {
	.irecv = stub_irecv, .test = stub_test, .irecv_consumed = stub_consumed};
static const struct ncclnet_table_v7 *volatile real = &stub;

static ncclnet_result traced_irecv(void *comm, int count, void **data, int *bytes, int *tags,
				   void **mrs, void **request)
{
	struct trace_part part = {(uint64_t)bytes[0], tags[0], mrs[0]};
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_IRECV, comm);
	rc = real->irecv(comm, count, data, bytes, tags, mrs, request);
	trace_posted(&span, &part, 1, 0, rc, *request);
	return rc;
}

static ncclnet_result traced_test(void *request, int *done, int *sizes)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin_request(&span, TRACE_TEST, request);
	rc = real->test(request, done, sizes);
	trace_tested(&span, rc, *done, sizes);
	return rc;
}

static ncclnet_result traced_consumed(void *comm, int count, void *request)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin_request(&span, TRACE_CONSUMED, request);
	rc = real->irecv_consumed(comm, count, request);
	trace_consumed(&span, rc);
	return rc;
}

static struct ncclnet_table_v7 traced = {
	.irecv = traced_irecv, .test = traced_test, .irecv_consumed = traced_consumed};

/* A message: its post, a test that finds nothing, one that does, its consumption. */
static double message_ns(const struct ncclnet_table_v7 *volatile table, unsigned count)
{
	static char memory[64];
	int64_t begin = now_ns();
	int bytes = 4096, tag = 1, done, size = 0;
	void *data = memory, *mr = NULL, *request = NULL;

	for (unsigned i = 0; i < count; i++) {
		(void)table->irecv(comm_object, 1, &data, &bytes, &tag, &mr, &request);
		test_done = 0;
		(void)table->test(request, &done, &size);
		test_done = 1;
		(void)table->test(request, &done, &size);
		(void)table->irecv_consumed(comm_object, 1, request);
	}
	return (double)(now_ns() - begin) / count;
}

static double empty_ns(const struct ncclnet_table_v7 *volatile table, unsigned count)
{
	int64_t begin = now_ns();
	int done, size = 0;

	test_done = 0;
	for (unsigned i = 0; i < count; i++)
		(void)table->test(request_objects[0], &done, &size);
	return (double)(now_ns() - begin) / count;
}

static int by_cost(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void start(int force_clock, const char *path)
{
	struct trace_recorder_opts opts = {.path = path, .force_clock = force_clock};
	char handle[NCCLNET_HANDLE_BYTES] = {1};
	struct trace_span span;

	if (trace_recorder_open(&opts)) {
		perror(path);
		exit(1);
	}
	trace_begin(&span, TRACE_LISTEN, NULL);
	trace_listened(&span, 0, 0, handle, handle);
	trace_begin(&span, TRACE_ACCEPT, handle);
	trace_accepted(&span, 0, comm_object);
}

static int measure(int force_clock)
{
	double calls[ROUNDS], empties[ROUNDS], base[ROUNDS], base_empty[ROUNDS];
	struct trace_recorder_counts counts;
	char path[] = "/tmp/trace-cost-%p.tct";

	start(force_clock, path);
	(void)message_ns(&traced, 1000);
	usleep(PAUSE_US);
	for (int i = 0; i < ROUNDS; i++) {
		base[i] = message_ns(&stub, BATCH);
		calls[i] = message_ns(&traced, BATCH) - base[i];
		base_empty[i] = empty_ns(&stub, CALLS);
		empties[i] = empty_ns(&traced, CALLS) - base_empty[i];
		usleep(PAUSE_US);
	}
	trace_recorder_close();
	trace_recorder_counts(&counts);
	unlink(counts.path);
	qsort(calls, ROUNDS, sizeof(calls[0]), by_cost);
	qsort(empties, ROUNDS, sizeof(empties[0]), by_cost);
	printf("{\"bench\":\"trace_cost\",\"clock\":\"%s\",\"call_ns\":%.1f,\"call_ns_least\":%.1f,"
	       "\"empty_test_ns\":%.1f,\"dropped\":%llu}\n",
	       trace_clock_tsc ? "tsc" : "clock_gettime", calls[ROUNDS / 2] / 4, calls[0] / 4,
	       empties[ROUNDS / 2], (unsigned long long)counts.dropped);
	return 0;
}

static void put(FILE *out, const void *bytes, size_t len)
{
	if (fwrite(bytes, 1, len, out) != len) {
		perror("trace_cost");
		exit(1);
	}
}

/* A file of messages of 16 comms of 4 threads, in blocks as the recorder writes them. */
static int make(const char *path, uint64_t records, uint64_t changed)
{
	enum { BLOCK = 1024, THREADS = 4, COMMS = 16 };
	static struct trace_record block[BLOCK];
	struct trace_header header = {.version = TRACE_VERSION, .hz = 1000000000, .pid = 1};
	uint64_t numbers[COMMS] = {0}, firsts[THREADS] = {0}, time = 1000;
	uint8_t bytes[TRACE_HEADER_BYTES];
	FILE *out = fopen(path, "we");

	if (!out) {
		perror(path);
		return 1;
	}
	trace_header_put(bytes, &header);
	put(out, bytes, TRACE_HEADER_BYTES);
	for (uint64_t at = 0; at < records; at += BLOCK) {
		unsigned thread = (unsigned)(at / BLOCK % THREADS);
		struct trace_block head = {.type = TRACE_BLOCK_RECORDS,
					   .thread = (uint16_t)thread,
					   .bytes = sizeof(block),
					   .first = firsts[thread]};

		for (unsigned i = 0; i < BLOCK; i++) {
			unsigned comm = thread * (COMMS / THREADS) + i / 4 % (COMMS / THREADS);

			block[i] = (struct trace_record){
				.time = time += 100,
				.number = numbers[comm],
				.bytes = at + i == changed ? 1 : 65536,
				.duration = 50,
				.comm = comm,
				.thread = (uint16_t)thread,
				.call = i % 2 ? TRACE_TEST : TRACE_ISEND,
				.flags = i % 2 ? TRACE_DONE : 0,
				.memory = TRACE_NONE,
				.nic = 0,
				.owner = TRACE_DEV_UNKNOWN,
				.gpu = TRACE_DEV_UNKNOWN,
				.parts = 1,
			};
			if (i % 2)
				block[i].bytes = 0;
			numbers[comm] += i % 2;
		}
		firsts[thread] += BLOCK;
		trace_block_put(bytes, &head);
		put(out, bytes, TRACE_BLOCK_BYTES);
		put(out, block, sizeof(block));
	}
	trace_block_put(bytes, &(struct trace_block){.type = TRACE_BLOCK_END});
	put(out, bytes, TRACE_BLOCK_BYTES);
	return fclose(out) ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc > 3 && !strcmp(argv[1], "make"))
		return make(argv[2], strtoull(argv[3], NULL, 10),
			    argc > 4 ? strtoull(argv[4], NULL, 10) : UINT64_MAX);
	if (argc > 1 && !strcmp(argv[1], "clock"))
		return measure(1);
	return measure(0);
}
