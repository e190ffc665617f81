/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder: nothing is lost without being counted, and nothing hurts the traced program. */
#include "descriptors.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "../support/trace_read.h"
#include "trace/observe.h"

#define EVENTS 20000u
#define THREADS 4u

static char folder[] = "/tmp/tcpx-trace-XXXXXX";
static char path[64];

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond);       \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static int start(uint32_t records)
{
	struct trace_recorder_opts opts = {.path = path, .ring_records = records};

	return trace_recorder_open(&opts);
}

static void events_from(unsigned first, unsigned count)
{
	struct trace_span span;

	for (unsigned i = first; i < first + count; i++) {
		trace_begin(&span, TRACE_DEVICES, NULL);
		trace_ended(&span, (int)i);
	}
}

static void events(unsigned count)
{
	events_from(0, count);
}

static void *events_main(void *arg)
{
	events(EVENTS);
	return arg;
}

static int all_events_of_threads(void)
{
	pthread_t threads[THREADS];
	struct trace_all all;

	MUST(!start(1u << 15));
	for (unsigned i = 0; i < THREADS; i++)
		MUST(!pthread_create(&threads[i], NULL, events_main, NULL));
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	trace_recorder_close();
	MUST(!trace_all_read(path, &all));
	MUST(all.ended == 1 && all.last == TRACE_READ_END && all.threads == THREADS);
	MUST(all.nrecords == THREADS * EVENTS && !all.missing && !all.end_dropped);
	free(all.records);
	return 0;
}

static int drops_have_a_place(void)
{
	struct trace_all all;
	unsigned gaps = 0;
	int expect = 0;

	MUST(!start(64));
	events(50 * EVENTS); /* far more than a ring of 64 can hand over */
	usleep(200000); /* the ring is emptied: the next record finds room, and the gap before it */
	events_from(50 * EVENTS, 1);
	trace_recorder_close();
	MUST(!trace_all_read(path, &all));
	MUST(all.end_dropped > 0);
	for (uint64_t i = 0; i < all.nrecords; i++) {
		const struct trace_record *r = &all.records[i];

		if (r->call == TRACE_GAP) {
			expect += (int)r->number;
			gaps++;
			continue;
		}
		MUST(r->result == expect);
		expect++;
	}
	MUST(gaps > 0);
	MUST(all.nrecords - gaps + all.end_dropped == 50 * EVENTS + 1);
	free(all.records);
	return 0;
}

static int a_full_disk_hurts_nobody(void)
{
	struct rlimit limit = {16384, RLIM_INFINITY};
	struct trace_recorder_counts counts;
	struct trace_all all;
	struct stat st;

	MUST(!setrlimit(RLIMIT_FSIZE, &limit));
	MUST(!start(1u << 12));
	events(EVENTS);
	usleep(50000);
	events(EVENTS);
	trace_recorder_close();
	trace_recorder_counts(&counts);
	MUST(counts.failed_writes > 0 && counts.dropped > 0);
	MUST(counts.written + counts.dropped >= 2 * EVENTS);
	MUST(!stat(path, &st) && st.st_size <= 16384);
	MUST(!trace_all_read(path, &all));
	MUST(all.last == TRACE_READ_END); /* whole blocks alone */
	free(all.records);
	return 0;
}

static int a_child_records_nothing(void)
{
	struct trace_all all;
	int status;
	pid_t pid;

	MUST(!start(1024));
	events(10);
	pid = fork();
	if (!pid) {
		events(100);
		exit(0); /* with its exit handlers */
	}
	MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	events(10);
	trace_recorder_close();
	MUST(!trace_all_read(path, &all));
	MUST(all.nrecords == 20 && all.ended == 1);
	free(all.records);
	return 0;
}

static int die_in_a_call(void)
{
	struct trace_span span;

	if (start(1024))
		return 1;
	events(3);
	trace_begin(&span, TRACE_TEST, NULL);
	exit(0); /* as a plugin does in there */
}

static int the_call_that_never_returned(void)
{
	struct trace_all all;
	int status;
	pid_t pid = fork();

	if (!pid)
		exit(die_in_a_call());
	MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	MUST(!trace_all_read(path, &all));
	MUST(all.ended == 1 && all.nrecords == 4);
	MUST(all.records[3].call == TRACE_TEST && all.records[3].flags == TRACE_UNFINISHED);
	free(all.records);
	return 0;
}

static int errno_is_kept(void)
{
	struct trace_span span;
	char handle[128] = {1};

	MUST(!start(1024));
	errno = EBUSY;
	trace_begin(&span, TRACE_LISTEN, NULL);
	trace_listened(&span, 0, 0, handle, handle);
	trace_begin_connect(&span, handle);
	trace_connected(&span, 0, 0, NULL);
	events(2000);
	trace_recorder_note("a", "%d", 1);
	trace_recorder_close();
	MUST(errno == EBUSY);
	return 0;
}

static int notes_and_clocks_are_there(void)
{
	struct trace_all all;

	MUST(!start(1024));
	trace_recorder_note("plugin.name", "%s", "two\nlines");
	events(1);
	trace_recorder_close();
	MUST(!trace_all_read(path, &all));
	MUST(all.clocks >= 1 && all.texts >= 2 && all.header.hz > 1000000);
	MUST(strstr(all.text, "plugin.name=two lines\n"));
	free(all.records);
	return 0;
}

static int an_existing_file_stays(void)
{
	struct trace_recorder_counts counts;
	FILE *out = fopen(path, "w");
	struct stat st;

	MUST(out && fputs("mine", out) >= 0 && !fclose(out));
	MUST(!start(64));
	trace_recorder_close();
	trace_recorder_counts(&counts);
	MUST(!stat(path, &st) && st.st_size == 4);
	MUST(strlen(counts.path) == strlen(path) + 2 && !unlink(counts.path));
	return 0;
}

static int no_file_no_trace(void)
{
	struct trace_recorder_opts opts = {.path = "/no/such/folder/x"};

	MUST(trace_recorder_open(&opts) && errno == ENOENT);
	events(10);
	trace_recorder_close();
	return 0;
}

/* A file without room for its header is closed again. */
static int no_room_no_trace(void)
{
	struct rlimit limit = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
	struct trace_recorder_opts opts = {.path = path};
	unsigned before = open_descriptors();

	signal(SIGXFSZ, SIG_IGN);
	MUST(!setrlimit(RLIMIT_FSIZE, &limit));
	MUST(trace_recorder_open(&opts) && errno == EFBIG);
	MUST(open_descriptors() == before);
	return 0;
}

/* The recorder is a process's: each case has one. */
#define CASE(name)                                                                                 \
	static void case_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		unlink(path);                                                                      \
		assert_int_equal(in_child(name), 0);                                               \
		unlink(path);                                                                      \
	}
CASE(all_events_of_threads)
CASE(drops_have_a_place)
CASE(a_full_disk_hurts_nobody)
CASE(a_child_records_nothing)
CASE(the_call_that_never_returned)
CASE(errno_is_kept)
CASE(notes_and_clocks_are_there)
CASE(an_existing_file_stays)
CASE(no_file_no_trace)
CASE(no_room_no_trace)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(case_all_events_of_threads),
		cmocka_unit_test(case_drops_have_a_place),
		cmocka_unit_test(case_a_full_disk_hurts_nobody),
		cmocka_unit_test(case_a_child_records_nothing),
		cmocka_unit_test(case_the_call_that_never_returned),
		cmocka_unit_test(case_errno_is_kept),
		cmocka_unit_test(case_notes_and_clocks_are_there),
		cmocka_unit_test(case_an_existing_file_stays),
		cmocka_unit_test(case_no_file_no_trace),
		cmocka_unit_test(case_no_room_no_trace),
	};
	int rc;

	if (!mkdtemp(folder))
		return 1;
	snprintf(path, sizeof(path), "%s/t.tct", folder);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return rc;
}
