/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of tcpx trace over traces that are written for them: setups, devices, both ends, gaps. */
#include "unit.h"

#include <stdlib.h>

#include "trace_pair.h"

#define MS 1000000u /* ticks are nanoseconds here */

static char folder[] = "/tmp/tcpx-trace-XXXXXX";

/* A trace in the making. first: of the one thread that most tests have. */
struct maker {
	FILE *out;
	char path[64];
	struct trace_record records[256];
	uint32_t count;
	uint64_t first; /* position of the first record of the block */
	uint16_t thread;
};

static void maker_open(struct maker *m, const char *name, uint64_t wall_ns)
{
	struct trace_header header = {
		.version = TRACE_VERSION, .hz = 1000000000, .start = {.wall_ns = wall_ns}};
	uint8_t bytes[TRACE_HEADER_BYTES];

	memset(m, 0, sizeof(*m));
	snprintf(m->path, sizeof(m->path), "%s/%s", folder, name);
	m->out = fopen(m->path, "wb");
	assert_non_null(m->out);
	trace_header_put(bytes, &header);
	fwrite(bytes, 1, sizeof(bytes), m->out);
}

static void maker_block(struct maker *m, struct trace_block block, const void *payload)
{
	uint8_t head[TRACE_BLOCK_BYTES];

	trace_block_put(head, &block);
	fwrite(head, 1, sizeof(head), m->out);
	if (block.bytes)
		fwrite(payload, 1, block.bytes, m->out);
}

static void maker_flush(struct maker *m)
{
	maker_block(m,
		    (struct trace_block){.type = TRACE_BLOCK_RECORDS,
					 .thread = m->thread,
					 .first = m->first,
					 .bytes = m->count * TRACE_RECORD_BYTES},
		    m->records);
	m->first += m->count;
	m->count = 0;
}

static void maker_text(struct maker *m, const char *text)
{
	maker_block(
		m,
		(struct trace_block){.type = TRACE_BLOCK_CONTEXT, .bytes = (uint32_t)strlen(text)},
		text);
}

static void maker_close(struct maker *m)
{
	maker_flush(m);
	maker_block(m, (struct trace_block){.type = TRACE_BLOCK_END}, "");
	assert_int_equal(fclose(m->out), 0);
}

static struct trace_record *call(struct maker *m, enum trace_call id, uint32_t comm, uint64_t at_ms,
				 uint64_t number)
{
	struct trace_record *r = &m->records[m->count++];

	assert_true(m->count <= 256);
	*r = (struct trace_record){.time = at_ms * MS,
				   .duration = 1000,
				   .call = (uint8_t)id,
				   .comm = comm,
				   .number = number,
				   .memory = TRACE_NONE,
				   .nic = 0,
				   .owner = TRACE_DEV_UNKNOWN,
				   .gpu = TRACE_DEV_UNKNOWN,
				   .parts = 1};
	if (id == TRACE_LISTEN || id == TRACE_CONNECT || id == TRACE_ACCEPT || id == TRACE_TEST)
		r->flags = TRACE_DONE;
	return r;
}

static void load(const struct maker *m, struct trace_file *file)
{
	assert_int_equal(trace_file_open(m->path, file), 0);
	assert_int_equal(trace_file_records(file), 0);
}

/* The finding of a rule; NULL: none. Of one file, or of both ends. */
static const struct trace_finding *found(const struct maker *a, const struct maker *b,
					 const char *rule)
{
	static struct trace_findings f;
	struct trace_file one, other;
	struct trace_links links;

	load(a, &one);
	if (b)
		load(b, &other);
	trace_lint(&one, 1000 * (int64_t)MS, &f);
	if (b) {
		assert_int_equal(trace_links_find(&one, &other, &links), 0);
		f.count = 0;
		trace_links_lint(&links, &f);
		trace_links_free(&links);
		trace_file_close(&other);
	}
	trace_file_close(&one);
	for (unsigned i = 0; i < f.count; i++)
		if (!strcmp(f.list[i].rule, rule))
			return &f.list[i];
	return NULL;
}

static void a_clean_trace(struct maker *m)
{
	maker_text(m, "plugin.consumed=1\nnic.0.name=eth1\nnic.1.name=eth2\n");
	call(m, TRACE_LISTEN, 0, 1, 77);
	call(m, TRACE_CONNECT, 1, 2, 77);
	call(m, TRACE_ACCEPT, 2, 3, 77);
}

static void a_listen_comm_serves_once(void **state)
{
	const struct trace_finding *f;
	struct maker m;

	(void)state;
	maker_open(&m, "once", 0);
	a_clean_trace(&m);
	maker_close(&m);
	assert_null(found(&m, NULL, "T04"));
	maker_open(&m, "twice", 0);
	a_clean_trace(&m);
	call(&m, TRACE_ACCEPT, 3, 4, 77);
	maker_close(&m);
	f = found(&m, NULL, "T04");
	assert_non_null(f);
	assert_non_null(strstr(f->text, "listen#0 gave recv#1"));
}

static void the_gpu_stays(void **state)
{
	const struct trace_finding *f;
	struct maker m;

	(void)state;
	maker_open(&m, "gpus", 0);
	call(&m, TRACE_LISTEN, 0, 1, 77)->gpu = 0;
	call(&m, TRACE_ACCEPT, 1, 2, 77)->gpu = 3;
	maker_close(&m);
	f = found(&m, NULL, "T08");
	assert_non_null(f);
	assert_string_equal(f->doctor, "D02");
	assert_non_null(strstr(f->text, "GPU 0 current, accept with GPU 3"));
}

static void listen_and_connect_share_a_device(void **state)
{
	struct maker m;

	(void)state;
	maker_open(&m, "devices", 0);
	maker_text(&m, "nic.0.name=eth1\nnic.1.name=eth2\n");
	call(&m, TRACE_LISTEN, 0, 1, 77);
	call(&m, TRACE_CONNECT, 1, 2, 78)->nic = 1;
	maker_close(&m);
	assert_non_null(found(&m, NULL, "T08"));
	maker_open(&m, "both", 0);
	call(&m, TRACE_LISTEN, 0, 1, 77);
	call(&m, TRACE_CONNECT, 1, 2, 78)->nic = 1;
	call(&m, TRACE_LISTEN, 2, 3, 79)->nic = 1;
	maker_close(&m);
	assert_null(found(&m, NULL, "T08"));
}

/* Receiving needs the GPU's own NIC, sending may use any. */
static void a_receiver_is_paired(void **state)
{
	struct trace_record *r;
	struct maker m;

	(void)state;
	maker_open(&m, "sender", 0);
	r = call(&m, TRACE_CONNECT, 0, 1, 77);
	r->gpu = 0;
	r->owner = 1;
	maker_close(&m);
	assert_null(found(&m, NULL, "T09"));
	maker_open(&m, "receiver", 0);
	r = call(&m, TRACE_ACCEPT, 0, 1, 77);
	r->gpu = 0;
	r->owner = 1;
	maker_close(&m);
	assert_string_equal(found(&m, NULL, "T09")->doctor, "D01");
}

static void the_head_is_tested(void **state)
{
	struct maker m;

	(void)state;
	maker_open(&m, "head", 0);
	a_clean_trace(&m);
	call(&m, TRACE_IRECV, 2, 5, 0);
	call(&m, TRACE_IRECV, 2, 6, 1);
	call(&m, TRACE_TEST, 2, 7, 1)->flags |= TRACE_OUT_OF_ORDER;
	m.records[m.count - 1].tag = TRACE_KIND_RECEIVE;
	maker_close(&m);
	assert_non_null(found(&m, NULL, "T02"));
}

static void setups_pause(void **state)
{
	struct maker m;

	(void)state;
	maker_open(&m, "hot", 0);
	call(&m, TRACE_LISTEN, 0, 1, 77);
	call(&m, TRACE_ACCEPT, 1, 2, 77)->repeats = 5000;
	m.records[1].duration = 10 * MS;
	maker_close(&m);
	assert_non_null(found(&m, NULL, "T06"));
	maker_open(&m, "patient", 0);
	call(&m, TRACE_LISTEN, 0, 1, 77);
	call(&m, TRACE_ACCEPT, 1, 2, 77)->repeats = 5000;
	m.records[1].duration = 5000 * (uint64_t)MS;
	maker_close(&m);
	assert_null(found(&m, NULL, "T06"));
}

static void nothing_across_a_gap(void **state)
{
	struct maker m;

	(void)state;
	maker_open(&m, "gap", 0);
	a_clean_trace(&m);
	call(&m, TRACE_IRECV, 2, 5, 0);
	maker_flush(&m);
	m.first += 3; /* blocks that could not be written */
	call(&m, TRACE_CLOSE_LISTEN, 0, 5000, 0);
	maker_close(&m);
	assert_non_null(found(&m, NULL, "T12"));
	assert_null(found(&m, NULL, "T10"));
	assert_null(found(&m, NULL, "T13"));
}

/* Blocks of two threads, at odd places of the file: calls lie in the order in which they ended, and
 * each belongs to the thread of its block. */
static void calls_of_threads_are_in_order(void **state)
{
	static const struct {
		unsigned at_ms;
		uint16_t thread, call;
	} want[] = {{10, 7, TRACE_LISTEN},
		    {20, 3, TRACE_CONNECT},
		    {30, 7, TRACE_IRECV},
		    {40, 3, TRACE_ISEND},
		    {50, 3, TRACE_CALL_COUNT}};
	struct trace_file file;
	struct maker m;

	(void)state;
	maker_open(&m, "threads", 0);
	m.thread = 3;
	call(&m, TRACE_CONNECT, 1, 20, 77)->thread = 9; /* a record cannot contradict its block */
	call(&m, TRACE_ISEND, 1, 40, 0);
	maker_flush(&m);
	maker_text(&m, "a=b\n");
	maker_text(&m, "odd=1");
	m.thread = 7;
	m.first = 0;
	call(&m, TRACE_LISTEN, 0, 10, 77);
	maker_flush(&m);
	m.first += 2; /* missing, of this thread */
	call(&m, TRACE_IRECV, 0, 30, 0);
	maker_flush(&m);
	m.thread = 3;
	m.first = 2;
	call(&m, 200, 1, 50, 0);
	maker_close(&m);
	load(&m, &file);
	assert_int_equal(file.nrecords, sizeof(want) / sizeof(want[0]));
	for (uint64_t i = 0; i < file.nrecords; i++) {
		struct trace_record r = trace_record_at(&file, i);

		assert_int_equal(r.time, (uint64_t)want[i].at_ms * MS);
		assert_int_equal(r.thread, want[i].thread);
		assert_int_equal(r.call, want[i].call);
	}
	assert_int_equal(file.missing, 2);
	assert_true(trace_end_of(&file, 0)->gap);
	assert_false(trace_end_of(&file, 1)->gap);
	assert_int_equal(trace_end_of(&file, 1)->nevents, 3);
	trace_file_close(&file);
}

/* Two ends whose messages take a millisecond; the receiver's clock is wrong by offset_ms. */
static void two_ends(struct maker *a, struct maker *b, int64_t offset_ms)
{
	maker_open(a, "a", 1000 * (uint64_t)MS);
	maker_open(b, "b", (uint64_t)(1000 + offset_ms) * MS);
	call(b, TRACE_LISTEN, 0, 1, 77);
	call(a, TRACE_CONNECT, 0, 2, 77);
	call(b, TRACE_ACCEPT, 1, 3, 77);
	for (uint64_t i = 0; i < 4; i++) {
		call(a, TRACE_ISEND, 0, 10 + i, i)->bytes = 100;
		call(b, TRACE_IRECV, 1, 10 + i, i)->bytes = 200;
		call(b, TRACE_TEST, 1, 11 + i, i)->tag = TRACE_KIND_RECEIVE;
	}
}

static int64_t offset_of(struct maker *a, struct maker *b)
{
	struct trace_file one, other;
	struct trace_links links;
	int64_t offset;

	load(a, &one);
	load(b, &other);
	assert_int_equal(trace_links_find(&one, &other, &links), 0);
	assert_int_equal(links.count, 1);
	assert_int_equal(links.list[0].sent, 4);
	assert_int_equal(links.list[0].seen, 4);
	assert_false(links.contradiction);
	offset = links.offset_ns;
	assert_true(offset >= links.low_ns && offset <= links.high_ns);
	trace_links_free(&links);
	trace_file_close(&one);
	trace_file_close(&other);
	return offset;
}

static void the_clocks_offset_is_estimated(void **state)
{
	struct maker a, b;

	(void)state;
	two_ends(&a, &b, 0); /* the wall clocks agree with all calls */
	maker_close(&a);
	maker_close(&b);
	assert_int_equal(offset_of(&a, &b), 0);
	two_ends(&a, &b, -50); /* done before it was posted: the clock is wrong */
	maker_close(&a);
	maker_close(&b);
	assert_in_range(-offset_of(&a, &b), 48 * MS, 51 * MS);
	two_ends(&a, &b, 50); /* connected before it listened */
	maker_close(&a);
	maker_close(&b);
	assert_in_range(offset_of(&a, &b), 48 * MS, 51 * MS);
}

static void the_ends_agree(void **state)
{
	struct maker a, b;

	(void)state;
	two_ends(&a, &b, 0);
	maker_close(&a);
	maker_close(&b);
	assert_null(found(&a, &b, "T05"));
	two_ends(&a, &b, 0);
	a.records[2].bytes = 300;
	maker_close(&a);
	maker_close(&b);
	assert_non_null(strstr(found(&a, &b, "T05")->text, "300 bytes are sent, 200"));
	two_ends(&a, &b, 0);
	a.records[3].tag = 9;
	maker_close(&a);
	maker_close(&b);
	assert_non_null(strstr(found(&a, &b, "T05")->text, "tag 9"));
}

static void a_message_that_was_never_seen(void **state)
{
	struct maker a, b;

	(void)state;
	two_ends(&a, &b, 0);
	call(&a, TRACE_ISEND, 0, 20, 4)->bytes = 100;
	call(&b, TRACE_CLOSE_LISTEN, 0, 5000, 0);
	maker_close(&a);
	maker_close(&b);
	assert_non_null(
		strstr(found(&a, &b, "T10")->text, "posted 5 messages, the receiver saw 4"));
	two_ends(&a, &b, 0); /* the receiver waits, the sender has nothing */
	call(&b, TRACE_IRECV, 1, 20, 4)->bytes = 200;
	call(&b, TRACE_CLOSE_LISTEN, 0, 5000, 0);
	maker_close(&a);
	maker_close(&b);
	assert_non_null(strstr(found(&a, &b, "T10")->text, "waits for message 4"));
}

static int remove_folder(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listen_comm_serves_once),
		cmocka_unit_test(the_gpu_stays),
		cmocka_unit_test(listen_and_connect_share_a_device),
		cmocka_unit_test(a_receiver_is_paired),
		cmocka_unit_test(the_head_is_tested),
		cmocka_unit_test(setups_pause),
		cmocka_unit_test(nothing_across_a_gap),
		cmocka_unit_test(calls_of_threads_are_in_order),
		cmocka_unit_test(the_clocks_offset_is_estimated),
		cmocka_unit_test(the_ends_agree),
		cmocka_unit_test(a_message_that_was_never_seen),
	};

	if (!mkdtemp(folder))
		return 1;
	return cmocka_run_group_tests(tests, NULL, remove_folder);
}
