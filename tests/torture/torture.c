/* SPDX-License-Identifier: Apache-2.0 */
/* Every call site of malloc and of the system calls fails once in a scenario that uses the whole
 * API: clean errors, no hang, no leak, and what was applied is right. */
#include <dirent.h>
#include <sys/mman.h>

#include "check.h"
#include "parts/slow.h"
#include "torture.h"
#include <tcpx/tcpx.h>

#define PATIENCE_NS 30000000000LL /* of each wait; a peer's limits below are shorter */
#define SIZE (3u << 20)

struct scene {
	tcpx_session *one, *two;
	tcpx_peer peer, back;
	tcpx_region local, remote;
	uint64_t flags;
	enum tcpx_mem_kind kind;
};

extern const char __executable_start;

/* Not from malloc: every call of it may fail. */
static uint8_t from[SIZE], to[SIZE];

/* A failed call must say what failed. */
static int good(const char *what, tcpx_status status)
{
	if (status == TCPX_OK)
		return 1;
	CHECK_MSG(status < 0, "%s: %s", what, tcpx_status_name(status));
	CHECK_MSG(status != TCPX_ERR_INTERNAL, "%s: internal error: %s", what,
		  tcpx_last_error()->what);
	return 0;
}

#define TRY(call)                                                                                  \
	do {                                                                                       \
		if (!good(#call, call))                                                            \
			return;                                                                    \
	} while (0)

/* A request that was posted ends, whatever happens. */
static tcpx_status finish(tcpx_session *session, tcpx_request request)
{
	tcpx_status status = tcpx_request_wait(session, request, PATIENCE_NS, NULL);

	CHECK_MSG(status != TCPX_IN_PROGRESS, "a request did not end");
	(void)!tcpx_request_release(session, request);
	return status;
}

static tcpx_status run_one(struct scene *s, enum tcpx_op op, const tcpx_segment *segments,
			   size_t count, const tcpx_request_opts *opts)
{
	tcpx_request request;
	tcpx_status status;

	status = tcpx_request_start(s->one, s->peer, op, segments, count, opts, &request);
	return status ? status : finish(s->one, request);
}

static void open_both(struct scene *s)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = "one", .flags = s->flags, .silent_ms = 2000,
		  .stopped_ms = 4000, .channels = 2);
	TCPX_OPTS(tcpx_connect_opts, connect, .timeout_ns = 5000000000LL);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	uint16_t port;
	size_t len;

	TRY(tcpx_session_open(&opts, &s->one));
	opts.name = "two";
	TRY(tcpx_session_open(&opts, &s->two));
	TRY(tcpx_session_listen(s->two, NULL, &port));
	TRY(tcpx_session_info(s->two, info, sizeof(info), &len));
	TRY(tcpx_session_connect(s->one, info, len, &connect, &s->peer));
	TRY(tcpx_session_accept(s->two, 1000000000LL, &s->back));
}

static int set_memory(struct scene *s)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = s->kind,
		  .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	uint8_t token[TCPX_TOKEN_BYTES];
	tcpx_region far;

	return good("register", tcpx_region_register(s->one, from, SIZE, &opts, &s->local)) &&
	       good("register", tcpx_region_register(s->two, to, SIZE, &opts, &far)) &&
	       good("export", tcpx_region_export(s->two, far, token)) &&
	       good("import",
		    tcpx_region_import(s->one, s->peer, token, sizeof(token), &s->remote));
}

static void same_bytes(const char *what)
{
	size_t first = 0, last = SIZE;

	while (first < SIZE && from[first] == to[first])
		first++;
	while (last > first && from[last - 1] == to[last - 1])
		last--;
	CHECK_MSG(first == SIZE, "%s said done, but bytes %zu to %zu are not there", what, first,
		  last);
}

/* What is said to be done is done. After a failure the memory is anybody's: late bytes may land. */
static void move_bytes(struct scene *s)
{
	tcpx_segment segment = {.local = s->local, .remote = s->remote, .length = SIZE};
	tcpx_segment list[100];
	TCPX_OPTS(tcpx_request_opts, opts, .notify = "done", .notify_bytes = 4);

	memset(from, 1, SIZE);
	TRY(run_one(s, TCPX_OP_WRITE, &segment, 1, &opts));
	same_bytes("a WRITE");
	memset(to, 2, SIZE);
	TRY(run_one(s, TCPX_OP_READ, &segment, 1, NULL));
	same_bytes("a READ");
	for (uint64_t i = 0; i < 100; i++)
		list[i] = (tcpx_segment){.local = s->local,
					 .remote = s->remote,
					 .length = 777,
					 .local_offset = i * 1000,
					 .remote_offset = i * 3001};
	memset(from, 3, SIZE);
	TRY(run_one(s, TCPX_OP_WRITE, list, 100, NULL));
	for (int i = 0; i < 100; i++)
		CHECK(to[i * 3001] == 3 && to[i * 3001 + 776] == 3);
	segment.length = 8;
	from[0] = 9;
	TRY(run_one(s, TCPX_OP_WRITE, &segment, 1, NULL));
	CHECK(to[0] == 9);
}

static void messages(struct scene *s)
{
	tcpx_segment out = {.local = s->local, .length = 100000};
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_request send;
	tcpx_status status;

	TRY(tcpx_notify_send(s->one, s->peer, "hello", 5));
	status = tcpx_notify_take(s->two, PATIENCE_NS / 10, &note);
	if (status == TCPX_OK)
		tcpx_notification_release(s->two, &note);
	TRY(tcpx_request_start(s->one, s->peer, TCPX_OP_SEND, &out, 1, NULL, &send));
	TRY(tcpx_request_cancel_wait(s->one, send, PATIENCE_NS) == TCPX_ERR_CANCELLED
		    ? TCPX_OK
		    : TCPX_ERR_STATE);
	TRY(tcpx_request_release(s->one, send));
	(void)!tcpx_peer_flush(s->one, s->peer, PATIENCE_NS / 10);
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	CHECK(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void play(struct scene *s)
{
	int before = descriptors();

	open_both(s);
	if (s->back.id && set_memory(s)) {
		move_bytes(s);
		messages(s);
	}
	tcpx_session_close(s->one);
	tcpx_session_close(s->two);
	CHECK_EQ(descriptors(), before);
}

/* After the failure nothing is broken for good: the same again, without one, works. */
static void run_scene(void *arg)
{
	struct scene first = *(struct scene *)arg, again = first;
	uintptr_t victim = torture_victim;

	tcpx_log_set(NULL, NULL, TCPX_LOG_ERROR);
	play(&first);
	torture_victim = 0;
	torture_recording = false;
	if (!victim)
		return;
	play(&again);
	CHECK_MSG(again.back.id, "it does not work any more: %s", tcpx_last_error()->what);
}

static void run_all(struct scene *scene, const char *name, uint32_t nth, const char *only,
		    struct check_result *result)
{
	struct check_case one = {.run = run_scene};
	char text[160];

	memset(torture, 0, sizeof(*torture));
	torture_recording = true;
	snprintf(text, sizeof(text), "%s: list the calls", name);
	one.name = text;
	check_case_run(&one, scene, result);
	torture_recording = false;
	CHECK_MSG(torture->nsites > 30 && torture->nsites < SITES_MAX, "%u sites", torture->nsites);
	if (getenv("TORTURE_LIST")) /* for addr2line */
		for (uint32_t i = 0; i < torture->nsites; i++)
			printf("%s site %u: %s at 0x%" PRIxPTR "\n", name, i, torture->site[i].call,
			       atomic_load(&torture->site[i].address) -
				       (uintptr_t)&__executable_start);
	torture_nth = nth;
	for (uint32_t i = 0; i < torture->nsites; i++) {
		struct site *site = &torture->site[i];

		if (atomic_load(&site->count) + 1 < nth)
			continue;
		snprintf(text, sizeof(text), "%s: %s #%u of site %u", name, site->call, nth, i);
		if (only && !strstr(text, only))
			continue;
		torture_victim = atomic_load(&site->address);
		check_case_run(&one, scene, result);
	}
	torture_victim = 0;
}

int main(int argc, char **argv)
{
	static struct scene scenes[] = {
		{.flags = TCPX_SESSION_NO_LOCAL},
		{.flags = TCPX_SESSION_LOCAL_ONLY},
		{.flags = TCPX_SESSION_NO_LOCAL, .kind = MEM_KIND_TEST},
	};
	static const char *const names[] = {"tcp", "local", "slow"};
	const char *only = argc > 1 ? argv[1] : NULL, *longer = getenv("TEST_LONG");
	struct check_result result = {0};
	uint32_t rounds = longer && longer[0] == '1' ? 4 : 1;
	int nscenes = rounds > 1 ? 3 : 2; /* that of staged memory in the long form */

	torture = mmap(NULL, sizeof(*torture), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	CHECK(torture != MAP_FAILED);
	for (uint32_t nth = 1; nth <= rounds; nth++)
		for (int i = 0; i < nscenes; i++)
			run_all(&scenes[i], names[i], nth, only, &result);
	return check_end(&result);
}
