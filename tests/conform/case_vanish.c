/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that cannot be read or written, and memory that is gone while it is registered: a request
 * ends, never a process. */
#include <sys/mman.h>

#include "conform.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)
#define PIECES 300

/* Copied by the sender; by the receiver from what it read ahead; several chunks and rings. */
static const uint64_t sizes[] = {100, 9000, 64 * KIB + 1, 5 * MIB + 77};

/* Of a light configuration every other one. */
static bool left_out(size_t i)
{
	return config.light && i % 2 == 0;
}

static bool cpu_memory(void)
{
	return config.mem.kind != TCPX_MEM_CUDA && config.far_mem.kind != TCPX_MEM_CUDA;
}

static tcpx_status reg(struct env *env, void *addr, uint64_t len, uint32_t rights, tcpx_region *out)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = config.mem.kind, .rights = rights);

	return tcpx_region_register(env->session, addr, len, &opts, out);
}

static void refused(struct env *env, void *addr, uint64_t len, uint32_t rights, const void *where)
{
	tcpx_region region;
	char text[32];

	EXPECT(reg(env, addr, len, rights, &region), TCPX_ERR_INVALID);
	snprintf(text, sizeof(text), "%p", where);
	CHECK_MSG(strstr(tcpx_last_error()->what, text), "%s is not in: %s", text,
		  tcpx_last_error()->what);
	CHECK(*tcpx_last_error()->next);
}

static void granted(struct env *env, void *addr, uint64_t len, uint32_t rights)
{
	tcpx_region region;

	OK(reg(env, addr, len, rights, &region));
	OK(tcpx_region_deregister(env->session, region, LONG_NS));
}

/* One page more than the three mappings, which are "rw-", "r--" and "---". */
static uint8_t *map_three(size_t page)
{
	uint8_t *map =
		mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(map != MAP_FAILED);
	CHECK(!mprotect(map + page, page, PROT_READ));
	CHECK(!mprotect(map + 2 * page, page, PROT_NONE));
	CHECK(!munmap(map + 3 * page, page));
	return map;
}

static void case_vanish_rights(struct env *env)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *map;

	if (!cpu_memory())
		return;
	map = map_three(page);
	granted(env, map + 5, page - 5, RW);
	granted(env, map, 2 * page, TCPX_RIGHT_READ);
	granted(env, map + page, 1, TCPX_RIGHT_READ);
	granted(env, map, 3 * page, 0); /* what it allows is looked at when it is used */
	refused(env, map, page + 1, TCPX_RIGHT_WRITE, map + page);
	refused(env, map + page + 7, 1, RW, map + page + 7);
	refused(env, map, 2 * page + 1, TCPX_RIGHT_READ, map + 2 * page);
	refused(env, map + 2 * page, page, TCPX_RIGHT_READ, map + 2 * page);
	refused(env, map + 2 * page, page, TCPX_RIGHT_WRITE, map + 2 * page);
	refused(env, map + 3 * page, 1, TCPX_RIGHT_READ, map + 3 * page);
	refused(env, map, 4 * page, TCPX_RIGHT_WRITE, map + page);
	munmap(map, 3 * page);
}

static tcpx_status prepare(struct env *env, enum tcpx_op op, tcpx_region local, tcpx_region remote)
{
	tcpx_segment segment = {.local = local, .length = 64};
	tcpx_request request;
	tcpx_status status;

	if (op == TCPX_OP_WRITE || op == TCPX_OP_READ)
		segment.remote = remote;
	status = tcpx_request_prepare(env->session, env->peer, op, &segment, 1, NULL, &request);
	if (status == TCPX_OK)
		OK(tcpx_request_release(env->session, request));
	return status;
}

/* Without rights for peers memory registers as it is, and each use is looked at. */
static void case_vanish_local_use(struct env *env)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	tcpx_region reads, none, remote;
	uint8_t *map;

	if (!cpu_memory())
		return;
	map = map_three(page);
	remote = far_buf(env, 0, 64, RW, 0);
	OK(reg(env, map + page, page, 0, &reads));
	OK(reg(env, map + 2 * page, page, 0, &none));
	OK(prepare(env, TCPX_OP_WRITE, reads, remote));
	OK(prepare(env, TCPX_OP_SEND, reads, remote));
	EXPECT(prepare(env, TCPX_OP_READ, reads, remote), TCPX_ERR_INVALID);
	EXPECT(prepare(env, TCPX_OP_RECV, reads, remote), TCPX_ERR_INVALID);
	EXPECT(prepare(env, TCPX_OP_WRITE, none, remote), TCPX_ERR_INVALID);
	EXPECT(prepare(env, TCPX_OP_READ, none, remote), TCPX_ERR_INVALID);
	CHECK(!mprotect(map + 2 * page, page, PROT_READ | PROT_WRITE));
	OK(prepare(env, TCPX_OP_WRITE, none, remote));
	OK(prepare(env, TCPX_OP_READ, none, remote));
	OK(tcpx_region_deregister(env->session, reads, 0));
	OK(tcpx_region_deregister(env->session, none, 0));
	munmap(map, 3 * page);
}

static struct place file_here(void)
{
	struct place place = config.mem;

	place.file = true;
	return place;
}

/* Both sides go on: what is whole moves, both ways. */
static void still_works(struct env *env)
{
	tcpx_segment segment = {.remote = far_buf(env, 9, 3 * MIB, RW, 1), .length = 3 * MIB};
	struct buf buf;

	buf_make(&buf, segment.length, 3);
	buf_fill(&buf, 0, buf.size, 5, 0);
	segment.local = near_register(env, &buf, 0);
	OK(near_run(env, TCPX_OP_WRITE, &segment, 1, NULL));
	CHECK_EQ(far_pattern(env, 9, 0, buf.size, 5, 0), -1);
	buf_poison(&buf);
	OK(near_run(env, TCPX_OP_READ, &segment, 1, NULL));
	CHECK_EQ(buf_check(&buf, 0, buf.size, 5, 0), -1);
	OK(tcpx_region_deregister(env->session, segment.local, 0));
	buf_free(&buf);
}

/* A list of pieces in both memories, in turn from their begin and from their end. */
static uint32_t scatter(tcpx_segment *segments, tcpx_region local, tcpx_region remote,
			uint64_t size)
{
	uint64_t piece = size / (2 * PIECES);
	uint32_t n = 0;

	while (piece && n < PIECES) {
		uint64_t at = n % 2 ? size - (n + 1) * piece : n * piece;

		segments[n++] = (tcpx_segment){.local = local,
					       .local_offset = at,
					       .remote = remote,
					       .remote_offset = at,
					       .length = piece};
	}
	if (!n)
		segments[n++] = (tcpx_segment){.local = local, .remote = remote, .length = size};
	return n;
}

struct gone {
	enum tcpx_op op;
	bool far; /* whose memory it is */
};

static void run_gone(struct env *env, const struct gone *what, uint64_t size, uint64_t cut,
		     bool list)
{
	static tcpx_segment segments[PIECES];
	tcpx_status wanted = what->far ? TCPX_ERR_REMOTE : TCPX_ERR_INVALID;
	struct place place = what->far ? config.mem : file_here();
	tcpx_region local, remote;
	uint32_t n = 1;
	struct buf buf;

	buf_make_at(&buf, place, size, 0);
	local = near_register(env, &buf, 0);
	remote = what->far ? far_file(env, 0, size, RW) : far_buf(env, 0, size, RW, 0);
	segments[0] = (tcpx_segment){.local = local, .remote = remote, .length = size};
	if (list)
		n = scatter(segments, local, remote, size);
	OK(near_run(env, what->op, segments, n, NULL)); /* while it is there */
	if (what->far)
		OK(far_simple(env, FAR_CUT, 0, cut, 0, 0, 0));
	else
		buf_cut(&buf, cut);
	EXPECT(near_run(env, what->op, segments, n, NULL), wanted);
	still_works(env);
	OK(tcpx_region_deregister(env->session, local, LONG_NS));
	OK(tcpx_region_deregister(env->session, remote, 0));
	OK(far_simple(env, FAR_DEREG, 0, (uint64_t)LONG_NS, 0, 0, 0));
	buf_free(&buf);
}

static void all_gone(struct env *env, enum tcpx_op op, bool far)
{
	const struct gone what = {op, far};

	if (!cpu_memory())
		return;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (left_out(i))
			continue;
		run_gone(env, &what, sizes[i], 0, false);
		if (sizes[i] > 4096)
			run_gone(env, &what, sizes[i], sizes[i] / 2, false);
		run_gone(env, &what, sizes[i], sizes[i] / 2, true);
	}
}

static void case_vanish_write_target(struct env *env)
{
	all_gone(env, TCPX_OP_WRITE, true);
}

static void case_vanish_write_source(struct env *env)
{
	all_gone(env, TCPX_OP_WRITE, false);
}

static void case_vanish_read_source(struct env *env)
{
	all_gone(env, TCPX_OP_READ, true);
}

static void case_vanish_read_target(struct env *env)
{
	all_gone(env, TCPX_OP_READ, false);
}

/* SEND and RECV: memory of one of them is gone, both end, the next pair is whole. */
static void run_message(struct env *env, uint64_t size, enum tcpx_op near_op, bool far)
{
	bool sends = near_op == TCPX_OP_SEND;
	struct far_start start = {.op = sends ? TCPX_OP_RECV : TCPX_OP_SEND, .len = size};
	tcpx_segment segment = {.length = size};
	tcpx_status near_end, far_end;
	tcpx_request request;
	tcpx_region remote;
	struct buf buf;

	buf_make_at(&buf, far ? config.mem : file_here(), size, 0);
	segment.local = near_register(env, &buf, 0);
	remote = far ? far_file(env, 0, size, RW) : far_buf(env, 0, size, RW, 0);
	if (far)
		OK(far_simple(env, FAR_CUT, 0, 0, 0, 0, 0));
	else
		buf_cut(&buf, 0);
	OK(far_start(env, 0, &start));
	OK(tcpx_request_start(env->session, env->peer, near_op, &segment, 1, NULL, &request));
	near_end = near_wait(env, request, NULL);
	far_end = far_wait(env, 0, LONG_NS, NULL, NULL);
	CHECK_EQ(far ? far_end : near_end, TCPX_ERR_INVALID);
	/* An eager SEND is over at its sender before it is known where it goes. */
	CHECK(near_end < 0 || (sends && far));
	CHECK(far_end < 0 || (!sends && !far));
	OK(tcpx_request_release(env->session, request));
	OK(far_simple(env, FAR_RELEASE, 0, 0, 0, 0, 0));
	OK(tcpx_region_deregister(env->session, segment.local, LONG_NS));
	OK(tcpx_region_deregister(env->session, remote, 0));
	OK(far_simple(env, FAR_DEREG, 0, (uint64_t)LONG_NS, 0, 0, 0));
	buf_free(&buf);
	still_works(env);
}

static void case_vanish_messages(struct env *env)
{
	if (!cpu_memory())
		return;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (left_out(i))
			continue;
		run_message(env, sizes[i], TCPX_OP_SEND, false);
		run_message(env, sizes[i], TCPX_OP_SEND, true);
		run_message(env, sizes[i], TCPX_OP_RECV, false);
		run_message(env, sizes[i], TCPX_OP_RECV, true);
	}
}

/* Which memory it was is in the error of the request. */
static void case_vanish_is_said(struct env *env)
{
	const uint64_t bytes = MIB / 2; /* one chunk, so a single channel reads the memory */
	tcpx_segment segment = {.length = bytes};
	tcpx_request request;
	tcpx_error error = {.sz = sizeof(error)};
	struct buf buf;
	char text[64];

	if (!cpu_memory() || config.mem.kind == MEM_KIND_TEST)
		return;
	buf_make_at(&buf, file_here(), bytes, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, bytes, RW, 0);
	buf_cut(&buf, bytes / 2);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL, &request));
	EXPECT(near_wait(env, request, NULL), TCPX_ERR_INVALID);
	OK(tcpx_request_error(env->session, request, &error));
	CHECK(strstr(error.next, "until its region is deregistered"));
	/* a wait that returns how a request failed is a call that failed */
	CHECK(!strcmp(tcpx_last_error()->what, error.what));
	CHECK_EQ(tcpx_last_error()->status, TCPX_ERR_INVALID);
	/* The last page that is whole ends within a page before the middle. */
	snprintf(text, sizeof(text), "at offset %u", (unsigned)(bytes / 2 - buf.lead % 4096));
	CHECK_MSG(strstr(error.what, text), "'%s' is not in: %s", text, error.what);
	snprintf(text, sizeof(text), "region at %p", buf.addr);
	CHECK_MSG(strstr(error.what, text), "'%s' is not in: %s", text, error.what);
	OK(tcpx_request_release(env->session, request));
}

/* While one request meets memory that is gone, others of the same peer go on. */
static void case_vanish_beside(struct env *env)
{
	tcpx_segment bad = {.length = MIB}, good = {.length = 8 * MIB};
	tcpx_request good_one, bad_one;
	struct buf whole, cut;

	if (!cpu_memory())
		return;
	buf_make(&whole, good.length, 1);
	buf_fill(&whole, 0, whole.size, 6, 0);
	buf_make(&cut, bad.length, 0);
	good.local = near_register(env, &whole, 0);
	bad.local = near_register(env, &cut, 0);
	good.remote = far_buf(env, 1, good.length, RW, 0);
	bad.remote = far_file(env, 0, bad.length, RW);
	OK(far_simple(env, FAR_CUT, 0, bad.length / 2, 0, 0, 0));
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &good, 1, NULL, &good_one));
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &bad, 1, NULL, &bad_one));
	for (int i = 0; i < (config.light ? 3 : 20); i++) {
		OK(tcpx_request_post(env->session, good_one));
		OK(tcpx_request_post(env->session, bad_one));
		EXPECT(near_wait(env, bad_one, NULL), TCPX_ERR_REMOTE);
		OK(near_wait(env, good_one, NULL));
	}
	CHECK_EQ(far_pattern(env, 1, 0, good.length, 6, 0), -1);
}

const struct case_row cases_vanish[] = {
	{"vanish_rights", case_vanish_rights, 0},
	{"vanish_local_use", case_vanish_local_use, 0},
	{"vanish_write_target", case_vanish_write_target, 0},
	{"vanish_write_source", case_vanish_write_source, 0},
	{"vanish_read_source", case_vanish_read_source, 0},
	{"vanish_read_target", case_vanish_read_target, 0},
	{"vanish_messages", case_vanish_messages, 0},
	{"vanish_is_said", case_vanish_is_said, 0},
	{"vanish_beside", case_vanish_beside, 0},
	{0},
};
