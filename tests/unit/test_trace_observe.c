/* SPDX-License-Identifier: Apache-2.0 */
/* What calls of ncclNet become in a trace. */
#include "unit.h"

#include <stdlib.h>

#include "../support/trace_read.h"
#include "trace/observe.h"

static char folder[] = "/tmp/tcpx-trace-XXXXXX";
static char path[64];

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond);       \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

/* Pointers as a plugin gives them; nothing looks behind them. */
static char objects[64][256];
#define LISTEN objects[0]
#define SENDS objects[1]
#define RECEIVES objects[2]
#define MEMORY objects[3]
#define REQUEST(i) objects[10 + (i)]

static void setup(void)
{
	static char handle[128], sent[128];
	struct trace_span s;

	for (int i = 0; i < 128; i++)
		handle[i] = sent[i] = (char)i;
	trace_begin(&s, TRACE_LISTEN, NULL);
	trace_listened(&s, 1, 0, LISTEN, handle);
	for (int i = 0; i < 3; i++) {
		trace_begin_connect(&s, sent);
		sent[100]++; /* a plugin keeps its state in there */
		trace_connected(&s, 1, 0, i < 2 ? NULL : SENDS);
		trace_begin(&s, TRACE_ACCEPT, LISTEN);
		trace_accepted(&s, 0, i < 2 ? NULL : RECEIVES);
	}
}

static void post(enum trace_call call, const void *comm, uint64_t bytes, const void *out)
{
	struct trace_part part = {bytes, 7, MEMORY};
	struct trace_span s;

	trace_begin(&s, call, comm);
	trace_posted(&s, &part, 1, 0, 0, out);
}

static void test(const void *request, int done, int size)
{
	struct trace_span s;

	trace_begin_request(&s, TRACE_TEST, request);
	trace_tested(&s, 0, done, &size);
}

static int start(struct trace_recorder_opts *opts)
{
	opts->path = path;
	return trace_recorder_open(opts);
}

static int end(struct trace_all *all)
{
	trace_recorder_close();
	return trace_all_read(path, all);
}

static int setup_joins_two_ends(void)
{
	struct trace_recorder_opts opts = {0};
	struct trace_all all;

	MUST(!start(&opts));
	setup();
	MUST(!end(&all) && all.nrecords == 3);
	MUST(all.records[0].call == TRACE_LISTEN && all.records[0].flags == TRACE_DONE);
	MUST(all.records[1].call == TRACE_CONNECT && all.records[1].repeats == 2);
	MUST(all.records[1].flags == (TRACE_DONE | TRACE_RETRIED));
	MUST(all.records[0].number && all.records[0].number == all.records[1].number);
	MUST(all.records[2].call == TRACE_ACCEPT && all.records[2].number == all.records[0].number);
	MUST(all.records[0].comm == 0 && all.records[1].comm == 1 && all.records[2].comm == 2);
	MUST(all.records[2].nic == 1 && all.records[2].gpu == TRACE_DEV_UNKNOWN);
	free(all.records);
	return 0;
}

static int empty_tests_are_one_event(void)
{
	struct trace_recorder_opts opts = {.force_clock = 1};
	struct trace_all all;
	const struct trace_record *r;

	MUST(!start(&opts));
	setup();
	post(TRACE_IRECV, RECEIVES, 4096, NULL); /* later */
	post(TRACE_IRECV, RECEIVES, 4096, REQUEST(0));
	for (int i = 0; i < 1000; i++)
		test(REQUEST(0), 0, 0);
	test(REQUEST(0), 1, 1000);
	MUST(!end(&all));
	r = &all.records[3];
	MUST(r->call == TRACE_IRECV && r->repeats == 1 && r->flags & TRACE_RETRIED);
	MUST(r->number == 0 && r->bytes == 4096 && r->tag == 7 && r->comm == 2);
	r = &all.records[all.nrecords - 1];
	MUST(r->call == TRACE_TEST && r->repeats == 1000 && r->bytes == 1000);
	MUST(r->flags == (TRACE_DONE | TRACE_RETRIED) && r->tag == TRACE_KIND_RECEIVE);
	MUST(all.nrecords <= 3 + 2 + 12); /* with what says that it waits */
	free(all.records);
	return 0;
}

static int a_hang_is_seen(void)
{
	struct trace_recorder_opts opts = {0};
	struct trace_all all;

	MUST(!start(&opts));
	setup();
	post(TRACE_IRECV, RECEIVES, 4096, REQUEST(0));
	for (int i = 0; i < 20; i++) {
		test(REQUEST(0), 0, 0);
		usleep(1000);
	}
	MUST(!end(&all));
	MUST(all.records[all.nrecords - 1].flags == (TRACE_EMPTY));
	MUST(all.records[all.nrecords - 1].repeats > 1);
	free(all.records);
	return 0;
}

static int requests_are_numbered(void)
{
	struct trace_recorder_opts opts = {0};
	struct trace_all all;
	struct trace_span s;
	const struct trace_record *r;

	MUST(!start(&opts));
	setup();
	trace_begin(&s, TRACE_REG, SENDS);
	trace_registered(&s, 65536, 2, 0, MEMORY);
	for (unsigned i = 0; i < 40; i++) {
		post(TRACE_ISEND, SENDS, i, REQUEST(i % 16));
		test(REQUEST(i % 16), 1, 0);
	}
	MUST(!end(&all) && all.nrecords == 3 + 1 + 80);
	MUST(all.records[3].memory == 0 && all.records[3].flags == TRACE_GPU);
	for (unsigned i = 0; i < 40; i++) {
		r = &all.records[4 + (size_t)i * 2];
		MUST(r[0].call == TRACE_ISEND && r[0].number == i && r[0].bytes == i);
		MUST(r[0].memory == 0 && r[0].flags == TRACE_GPU && r[0].comm == 1);
		MUST(r[1].call == TRACE_TEST && r[1].number == i && r[1].flags == TRACE_DONE);
	}
	free(all.records);
	return 0;
}

static int a_test_out_of_order_is_marked(void)
{
	struct trace_recorder_opts opts = {0};
	struct trace_all all;

	MUST(!start(&opts));
	setup();
	for (unsigned i = 0; i < 3; i++)
		post(TRACE_IRECV, RECEIVES, 1, REQUEST(i));
	test(REQUEST(1), 0, 0); /* an older one is not done */
	test(REQUEST(0), 1, 1);
	test(REQUEST(2), 1, 1);
	test(REQUEST(1), 1, 1);
	MUST(!end(&all) && all.nrecords == 9);
	MUST(!(all.records[6].flags & TRACE_OUT_OF_ORDER) && all.records[6].number == 0);
	MUST(all.records[7].flags & TRACE_OUT_OF_ORDER && all.records[7].number == 2);
	MUST(all.records[8].flags & TRACE_OUT_OF_ORDER && all.records[8].number == 1);
	free(all.records);
	return 0;
}

/* The first of 100 requests is never tested. Only tests of the next 64 are marked as out of order;
 * those after them are not. */
static int a_request_without_a_test_is_given_up(void)
{
	static char requests[100];
	struct trace_recorder_opts opts = {0};
	struct trace_all all;
	unsigned marked = 0;

	MUST(!start(&opts));
	setup();
	for (unsigned i = 0; i < 100; i++)
		post(TRACE_IRECV, RECEIVES, 1, &requests[i]);
	for (unsigned i = 1; i < 100; i++)
		test(&requests[i], 1, 1);
	MUST(!end(&all) && all.nrecords == 3 + 100 + 99);
	for (unsigned i = 0; i < 99; i++)
		marked += !!(all.records[103 + i].flags & TRACE_OUT_OF_ORDER);
	MUST(marked == 64);
	MUST(!(all.records[201].flags & TRACE_OUT_OF_ORDER) && all.records[201].number == 99);
	free(all.records);
	return 0;
}

static int consumption_knows_its_request(void)
{
	struct trace_recorder_opts opts = {0};
	struct trace_all all;
	struct trace_span s;

	MUST(!start(&opts));
	setup();
	post(TRACE_IRECV, RECEIVES, 1, REQUEST(0));
	post(TRACE_IRECV, RECEIVES, 1, REQUEST(1));
	test(REQUEST(0), 1, 1);
	test(REQUEST(1), 1, 1);
	trace_begin_request(&s, TRACE_CONSUMED, REQUEST(1));
	trace_consumed(&s, 3);
	trace_begin(&s, TRACE_CLOSE_RECV, RECEIVES);
	trace_closed(&s, 0);
	MUST(!end(&all) && all.nrecords == 9);
	MUST(all.records[7].number == 1 && all.records[7].result == 3);
	MUST(all.records[8].call == TRACE_CLOSE_RECV && all.records[8].comm == 2);
	free(all.records);
	return 0;
}

static int strangers_are_said_to_be(void)
{
	struct trace_recorder_opts opts = {0};
	struct trace_all all;

	MUST(!start(&opts));
	post(TRACE_ISEND, objects[5], 9, REQUEST(5));
	test(REQUEST(6), 1, 0);
	test(REQUEST(6), 0, 0); /* nothing to say */
	MUST(!end(&all) && all.nrecords == 2);
	MUST(all.records[0].flags == TRACE_UNKNOWN && all.records[0].comm == TRACE_NONE);
	MUST(all.records[1].flags == (TRACE_UNKNOWN | TRACE_DONE));
	free(all.records);
	return 0;
}

/* A plugin that allocates each request: more pointers than any table holds. */
static int pointers_without_end(void)
{
	struct trace_recorder_opts opts = {.ring_records = 1u << 19};
	struct trace_all all;
	uint64_t strangers = 0;

	MUST(!start(&opts));
	setup();
	for (uintptr_t i = 1; i <= 200000; i++) {
		post(TRACE_ISEND, SENDS, 1, (void *)(i * 48));
		test((void *)(i * 48), 1, 0);
	}
	MUST(!end(&all) && all.nrecords == 3 + 400000);
	for (uint64_t i = 0; i < all.nrecords; i++)
		strangers += (all.records[i].flags & TRACE_UNKNOWN) != 0;
	MUST(!strangers);
	free(all.records);
	return 0;
}

static int a_grouped_receive(void)
{
	struct trace_recorder_opts opts = {0};
	struct trace_part parts[3] = {{10, 1, NULL}, {20, 2, NULL}, {30, 3, NULL}};
	int sizes[3] = {5, 6, 7};
	struct trace_all all;
	struct trace_span s;

	MUST(!start(&opts));
	setup();
	trace_begin(&s, TRACE_IRECV, RECEIVES);
	trace_posted(&s, parts, 3, 1, 0, REQUEST(0));
	trace_begin_request(&s, TRACE_TEST, REQUEST(0));
	trace_tested(&s, 0, 1, sizes);
	MUST(!end(&all) && all.nrecords == 9);
	for (unsigned i = 0; i < 3; i++) {
		MUST(all.records[3 + i].bytes == 10 * (i + 1) && all.records[3 + i].part == i);
		MUST(all.records[3 + i].parts == 3 && all.records[3 + i].flags & TRACE_EARLY);
		MUST(all.records[6 + i].bytes == 5 + i && all.records[6 + i].part == i);
	}
	free(all.records);
	return 0;
}

#define CASE(name)                                                                                 \
	static void case_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		assert_int_equal(in_child(name), 0);                                               \
		unlink(path);                                                                      \
	}
CASE(setup_joins_two_ends)
CASE(empty_tests_are_one_event)
CASE(a_hang_is_seen)
CASE(requests_are_numbered)
CASE(a_test_out_of_order_is_marked)
CASE(a_request_without_a_test_is_given_up)
CASE(consumption_knows_its_request)
CASE(strangers_are_said_to_be)
CASE(pointers_without_end)
CASE(a_grouped_receive)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(case_setup_joins_two_ends),
		cmocka_unit_test(case_empty_tests_are_one_event),
		cmocka_unit_test(case_a_hang_is_seen),
		cmocka_unit_test(case_requests_are_numbered),
		cmocka_unit_test(case_a_test_out_of_order_is_marked),
		cmocka_unit_test(case_a_request_without_a_test_is_given_up),
		cmocka_unit_test(case_consumption_knows_its_request),
		cmocka_unit_test(case_strangers_are_said_to_be),
		cmocka_unit_test(case_pointers_without_end),
		cmocka_unit_test(case_a_grouped_receive),
	};
	int rc;

	if (!mkdtemp(folder))
		return 1;
	snprintf(path, sizeof(path), "%s/t.tct", folder);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return rc;
}
