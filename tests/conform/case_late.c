/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page of the caller's memory that comes late: of a file on a network, of swap, of a guest that
 * is being moved; here by userfaultfd, which lets it come when the case says so. Whatever waits for
 * it waits, and nothing else does: a call that did would hang the case.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "conform.h"
#include "runtime_refs.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)
#define BYTES (4 * MIB)
#define SILENT_MS 1000

/* Memory of zeros, one page of which is not there yet. */
struct late {
	int fd;
	uint8_t *map;
	uint64_t bytes, page, at;
};

static void late_make(struct late *late, uint64_t bytes)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register mode = {.mode = UFFDIO_REGISTER_MODE_MISSING};

	late->page = (uint64_t)sysconf(_SC_PAGESIZE);
	late->bytes = bytes;
	late->at = bytes / 2 / late->page * late->page;
	late->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (late->fd < 0 && (errno == EPERM || errno == ENOSYS))
		SKIP("userfaultfd is not permitted");
	CHECK(late->fd >= 0);
	late->map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(late->map != MAP_FAILED);
	CHECK(!madvise(late->map, bytes, MADV_NOHUGEPAGE));
	for (uint64_t at = 0; at < bytes; at += late->page)
		if (at != late->at)
			*(volatile uint8_t *)(late->map + at) = 0;
	CHECK(!ioctl(late->fd, UFFDIO_API, &api));
	mode.range.start = (uintptr_t)late->map + late->at;
	mode.range.len = late->page;
	CHECK(!ioctl(late->fd, UFFDIO_REGISTER, &mode));
}

/* Somebody waits for the page. */
static void late_await(const struct late *late)
{
	struct uffd_msg msg;

	CHECK_EQ(read(late->fd, &msg, sizeof(msg)), sizeof(msg));
	CHECK_EQ(msg.event, UFFD_EVENT_PAGEFAULT);
}

static void late_come(const struct late *late)
{
	struct uffdio_zeropage zero = {.range = {(uintptr_t)late->map + late->at, late->page}};

	CHECK(!ioctl(late->fd, UFFDIO_ZEROPAGE, &zero));
}

static void late_free(const struct late *late)
{
	close(late->fd);
	munmap(late->map, late->bytes);
}

/* A session with memory that others may write to. */
struct side {
	tcpx_session *session;
	uint8_t info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	size_t len;
	uint8_t *memory;
	tcpx_region region;
};

static void side_open(struct side *side, const char *name, uint8_t *memory)
{
	TCPX_OPTS(tcpx_region_opts, opts, .rights = RW);
	tcpx_session_opts session;

	conform_opts(&session, name);
	session.silent_ms = SILENT_MS;
	session.stopped_ms = 3 * SILENT_MS;
	OK(tcpx_session_open(&session, &side->session));
	OK(tcpx_session_listen(side->session, NULL, NULL));
	OK(tcpx_session_info(side->session, side->info, sizeof(side->info), &side->len));
	side->memory = memory ? memory : calloc(1, BYTES);
	CHECK(side->memory);
	OK(tcpx_region_register(side->session, side->memory, BYTES, &opts, &side->region));
	OK(tcpx_region_export(side->session, side->region, side->token));
}

/* What a peer of ours has, and its session's handle of us. */
struct way {
	struct side *from, *to;
	tcpx_peer peer, back;
	tcpx_region remote;
};

static void way_open(struct way *way, struct side *from, struct side *to)
{
	*way = (struct way){.from = from, .to = to};
	OK(tcpx_session_connect(from->session, to->info, to->len, NULL, &way->peer));
	OK(tcpx_session_accept(to->session, LONG_NS, &way->back));
	OK(tcpx_region_import(from->session, way->peer, to->token, sizeof(to->token),
			      &way->remote));
}

static tcpx_request way_start(const struct way *way, enum tcpx_op op, uint64_t off, uint64_t len)
{
	tcpx_segment segment = {.local = way->from->region,
				.local_offset = off,
				.remote = way->remote,
				.remote_offset = off,
				.length = len};
	tcpx_request request;

	if (op == TCPX_OP_RECV || op == TCPX_OP_SEND)
		segment.remote = (tcpx_region){0};
	OK(tcpx_request_prepare(way->from->session, way->peer, op, &segment, 1, NULL, &request));
	OK(tcpx_request_post(way->from->session, request));
	return request;
}

static tcpx_status way_end(const struct way *way, tcpx_request request)
{
	tcpx_completion completion = {.sz = sizeof(completion)};

	CHECK_EQ(tcpx_request_wait(way->from->session, request, LONG_NS, &completion),
		 completion.status);
	OK(tcpx_request_release(way->from->session, request));
	return completion.status;
}

/* Both ends still have the link, and say so at once. */
static void way_lives(const struct way *way)
{
	tcpx_peer_info info = {.sz = sizeof(info)};

	OK(tcpx_peer_query(way->from->session, way->peer, &info));
	CHECK_EQ(info.state, TCPX_PEER_UP);
	OK(tcpx_peer_query(way->to->session, way->back, &info));
	CHECK_EQ(info.state, TCPX_PEER_UP);
}

/* A notification, a small WRITE and a small READ go through. */
static void way_works(const struct way *way)
{
	tcpx_notification note = {.sz = sizeof(note)};

	OK(tcpx_notify_send(way->from->session, way->peer, "x", 1));
	OK(tcpx_notify_take(way->to->session, LONG_NS, &note));
	tcpx_notification_release(way->to->session, &note);
	CHECK_EQ(way_end(way, way_start(way, TCPX_OP_WRITE, 0, 64)), TCPX_OK);
	CHECK_EQ(way_end(way, way_start(way, TCPX_OP_READ, 0, 64)), TCPX_OK);
}

/* Also for longer than the limits of silence and of a stopped peer. */
static void all_live(const struct way *one, const struct way *other, bool small, bool whole)
{
	const struct timespec moment = {0, 50 * MS};
	int64_t until_ns = clock_after(whole ? 4 * SILENT_MS * MS : 0);

	do {
		if (small)
			way_works(one);
		if (small)
			way_works(other);
		way_lives(one);
		way_lives(other);
		if (whole)
			nanosleep(&moment, NULL);
	} while (clock_now_ns() < until_ns);
}

struct three {
	struct late late;
	struct side a, x, y;
	struct way to_x, to_y;
};

/* The late page is in the memory of a, or in that of x. */
static void three_open(struct three *three, bool of_x)
{
	memset(three, 0, sizeof(*three));
	late_make(&three->late, BYTES);
	side_open(&three->a, "a", of_x ? NULL : three->late.map);
	side_open(&three->x, "x", of_x ? three->late.map : NULL);
	side_open(&three->y, "y", NULL);
	way_open(&three->to_x, &three->a, &three->x);
	way_open(&three->to_y, &three->a, &three->y);
}

static void side_close(struct side *side, const struct late *late)
{
	if (side->session)
		tcpx_session_close(side->session);
	if (side->memory != late->map)
		free(side->memory);
}

static void three_close(struct three *three)
{
	side_close(&three->a, &three->late);
	side_close(&three->x, &three->late);
	side_close(&three->y, &three->late);
	late_free(&three->late);
}

static bool is_final(tcpx_session *session, tcpx_request request)
{
	return tcpx_request_test(session, request, NULL) != TCPX_IN_PROGRESS;
}

/* Of a, whose memory the page is of, or of x. */
static void ended_by(struct three *three, tcpx_session *ends, tcpx_peer whose, struct side *owner,
		     bool whole)
{
	tcpx_request request = way_start(&three->to_x, TCPX_OP_WRITE, 0, BYTES);
	tcpx_session *hears = ends == three->a.session ? three->x.session : three->a.session;

	late_await(&three->late);
	all_live(&three->to_x, &three->to_y, true, whole);
	/* What goes as a message has a limit of its own. */
	CHECK(conform_plugin() || !is_final(three->a.session, request));
	OK(tcpx_peer_disconnect(ends, whose));
	session_event(hears, TCPX_EVENT_PEER_DOWN);
	way_works(&three->to_y);
	EXPECT(tcpx_region_deregister(owner->session, owner->region, MS), TCPX_ERR_BUSY);
	OK(tcpx_peer_disconnect(three->a.session, three->to_y.peer));
	session_event(three->y.session, TCPX_EVENT_PEER_DOWN);
	late_come(&three->late);
	CHECK(is_peer_error(way_end(&three->to_x, request)));
	OK(tcpx_region_deregister(owner->session, owner->region, LONG_NS));
}

static void case_late_source(struct env *env)
{
	struct three three;

	(void)env;
	three_open(&three, false);
	ended_by(&three, three.a.session, three.to_x.peer, &three.a, true);
	three_close(&three);
}

static void case_late_source_far_end(struct env *env)
{
	struct three three;

	(void)env;
	three_open(&three, false);
	ended_by(&three, three.x.session, three.to_x.back, &three.a, false);
	three_close(&three);
}

static void case_late_target(struct env *env)
{
	struct three three;

	(void)env;
	three_open(&three, true);
	ended_by(&three, three.x.session, three.to_x.back, &three.x, false);
	three_close(&three);
}

static void case_late_target_far_end(struct env *env)
{
	struct three three;

	(void)env;
	three_open(&three, true);
	ended_by(&three, three.a.session, three.to_x.peer, &three.x, false);
	three_close(&three);
}

/* The bytes are right when the page came, and nobody ended anything. */
static void case_late_and_done(struct env *env)
{
	struct three three;
	tcpx_request request;

	(void)env;
	three_open(&three, false);
	memset(three.a.memory, 0x5a, three.late.at);
	memset(three.x.memory, 0xff, BYTES);
	request = way_start(&three.to_x, TCPX_OP_WRITE, 0, BYTES);
	late_await(&three.late);
	OK(tcpx_peer_flush(three.a.session, three.to_y.peer, LONG_NS));
	late_come(&three.late);
	CHECK_EQ(way_end(&three.to_x, request), TCPX_OK);
	CHECK(!memcmp(three.a.memory, three.x.memory, BYTES));
	three_close(&three);
}

/* An eager message for memory that is not there. */
static void case_late_recv(struct env *env)
{
	struct three three;
	struct way back;
	tcpx_request recv, send, beside;

	(void)env;
	three_open(&three, true);
	back = (struct way){.from = &three.x, .to = &three.a, .peer = three.to_x.back};
	recv = way_start(&back, TCPX_OP_RECV, three.late.at, 4096);
	send = way_start(&three.to_x, TCPX_OP_SEND, 0, 4096);
	late_await(&three.late);
	/* The thread of all lanes of this process waits: posts are taken, and end later. */
	beside = way_start(&three.to_y, TCPX_OP_WRITE, 0, 64);
	all_live(&three.to_x, &three.to_y, false, false);
	OK(tcpx_peer_disconnect(three.x.session, back.peer));
	session_event(three.a.session, TCPX_EVENT_PEER_DOWN);
	late_come(&three.late);
	CHECK_EQ(way_end(&three.to_y, beside), TCPX_OK);
	CHECK(is_peer_error(way_end(&back, recv)));
	CHECK(is_peer_error(way_end(&three.to_x, send)));
	three_close(&three);
}

/* A session closes while a call of it waits. */
static void case_late_close(struct env *env)
{
	struct three three;

	(void)env;
	three_open(&three, false);
	(void)way_start(&three.to_x, TCPX_OP_WRITE, 0, BYTES);
	late_await(&three.late);
	tcpx_session_close(three.a.session);
	three.a.session = NULL;
	session_event(three.x.session, TCPX_EVENT_PEER_DOWN);
	session_event(three.y.session, TCPX_EVENT_PEER_DOWN);
	late_come(&three.late);
	while (runtime_refs() != 2) /* until what it left has gone */
		sched_yield();
	three_close(&three);
}

const struct case_row cases_late[] = {
	{"late_source", case_late_source, CASE_BARE | CASE_PLAIN | CASE_NEAR},
	{"late_source_far_end", case_late_source_far_end, CASE_BARE | CASE_PLAIN | CASE_NEAR},
	{"late_target", case_late_target, CASE_BARE | CASE_PLAIN | CASE_NEAR},
	{"late_target_far_end", case_late_target_far_end, CASE_BARE | CASE_PLAIN | CASE_NEAR},
	{"late_and_done", case_late_and_done, CASE_BARE | CASE_PLAIN | CASE_NEAR},
	{"late_recv", case_late_recv, CASE_BARE | CASE_PLAIN | CASE_NEAR},
	{"late_close", case_late_close, CASE_BARE | CASE_PLAIN | CASE_NEAR},
	{0},
};
