/* SPDX-License-Identifier: Apache-2.0 */
/* WRITE and READ of contiguous memory: sizes, alignments, reposts, both directions at once. */
#include <sys/mman.h>

#include "conform.h"

static const uint64_t sizes[] = {
	1,     2,      3,      7,      8,      9,	63,	 64,	  65,	    255,   1000,
	4095,  4096,   4097,   8191,   8192,   8193,	16383,	 16384,	  16385,    65535, 65536,
	65537, 100003, 524287, 524288, 524289, 1048576, 1048579, 8388609, 33554432,
};

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

/* One transfer of size bytes between odd places; everything around stays as it was. */
static void move(struct env *env, enum tcpx_op op, uint64_t size, size_t near_at, size_t far_at)
{
	struct buf buf;
	tcpx_segment segment = {.length = size};
	uint64_t seed = size * 64 + near_at * 8 + far_at + 1;

	buf_make(&buf, size, near_at);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, size, RW, far_at);
	if (op == TCPX_OP_WRITE)
		buf_fill(&buf, 0, size, seed, 0);
	else
		far_fill(env, 0, 0, size, seed, 0);
	OK(near_run(env, op, &segment, 1, NULL));
	CHECK_EQ(buf_check(&buf, 0, size, seed, 0), -1);
	CHECK_EQ(far_pattern(env, 0, 0, size, seed, 0), -1);
	CHECK(buf_slack_whole(&buf));
	CHECK(far_slack(env, 0));
	OK(tcpx_region_deregister(env->session, segment.local, 0));
	OK(tcpx_region_deregister(env->session, segment.remote, 0));
	OK(far_simple(env, FAR_DEREG, 0, 0, 0, 0, 0));
	buf_free(&buf);
}

static void move_all(struct env *env, enum tcpx_op op)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		move(env, op, sizes[i], i % 7, (i * 3 + 1) % 8);
	for (size_t at = 0; at < 64; at++)
		move(env, op, 20000 + at, at / 8, at % 8);
}

static void case_write_sizes(struct env *env)
{
	move_all(env, TCPX_OP_WRITE);
}

static void case_read_sizes(struct env *env)
{
	move_all(env, TCPX_OP_READ);
}

/* The middle of a region on both sides: the rest of either region is not touched. */
static void case_part_of_region(struct env *env)
{
	struct buf buf;
	tcpx_segment segment = {.local_offset = 1001, .remote_offset = 777777, .length = 500001};

	buf_make(&buf, 2 * MIB, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, 2 * MIB, RW, 0);
	buf_fill(&buf, 0, buf.size, 1, 0);
	OK(near_run(env, TCPX_OP_WRITE, &segment, 1, NULL));
	CHECK_EQ(far_bytes(env, 0, 0, 777777, POISON), -1);
	CHECK_EQ(far_pattern(env, 0, 777777, 500001, 1, 1001), -1);
	CHECK_EQ(far_bytes(env, 0, 777777 + 500001, 2 * MIB - 777777 - 500001, POISON), -1);
	far_fill(env, 0, 0, 2 * MIB, 2, 0);
	buf_poison(&buf);
	OK(near_run(env, TCPX_OP_READ, &segment, 1, NULL));
	CHECK_EQ(buf_bytes(&buf, 0, 1001, POISON), -1);
	CHECK_EQ(buf_check(&buf, 1001, 500001, 2, 777777), -1);
	CHECK_EQ(buf_bytes(&buf, 1001 + 500001, buf.size - 1001 - 500001, POISON), -1);
}

static void case_repost(struct env *env)
{
	static const uint64_t lengths[] = {8, 16 * KIB, 3 * MIB};
	struct buf buf;

	buf_make(&buf, 3 * MIB, 1);
	for (size_t i = 0; i < 3; i++) {
		tcpx_segment segment = {.length = lengths[i]};
		tcpx_request request;
		tcpx_completion done = {.sz = sizeof(done)};

		segment.local = near_register(env, &buf, 0);
		segment.remote = far_buf(env, 0, lengths[i], RW, 0);
		OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL,
					&request));
		EXPECT(tcpx_request_test(env->session, request, NULL), TCPX_ERR_STATE);
		for (uint64_t round = 1; round <= 20; round++) {
			buf_fill(&buf, 0, lengths[i], round, 0);
			OK(tcpx_request_post(env->session, request));
			OK(near_wait(env, request, &done));
			CHECK_EQ(done.bytes, lengths[i]);
			OK(tcpx_request_test(env->session, request, &done)); /* sticky */
			CHECK_EQ(far_pattern(env, 0, 0, lengths[i], round, 0), -1);
		}
		OK(tcpx_request_release(env->session, request));
	}
	CHECK(far_slack(env, 0));
}

/* Many requests in flight, each with its own destination, every byte compared. */
static void case_depth(struct env *env)
{
	enum { COUNT = 64 };
	struct buf buf;
	tcpx_request request[COUNT];
	tcpx_segment segment = {0};
	uint64_t size = 300001;

	buf_make(&buf, COUNT * size, 5);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, COUNT * size, RW, 3);
	for (int pass = 0; pass < 2; pass++) {
		enum tcpx_op op = pass ? TCPX_OP_READ : TCPX_OP_WRITE;

		if (pass)
			buf_poison(&buf);
		else
			buf_fill(&buf, 0, buf.size, 5, 0);
		for (int i = 0; i < COUNT; i++) {
			segment.local_offset = segment.remote_offset = (uint64_t)i * size;
			segment.length = i % 5 ? size : 100; /* small ones among them */
			OK(tcpx_request_start(env->session, env->peer, op, &segment, 1, NULL,
					      &request[i]));
		}
		for (int i = COUNT - 1; i >= 0; i--) {
			OK(near_wait(env, request[i], NULL));
			OK(tcpx_request_release(env->session, request[i]));
		}
		for (int i = 0; i < COUNT; i++) {
			uint64_t at = (uint64_t)i * size, len = i % 5 ? size : 100;

			CHECK_EQ(pass ? buf_check(&buf, at, len, 5, at)
				      : far_pattern(env, 0, at, len, 5, at),
				 -1);
			if (len == 100)
				CHECK_EQ(pass ? buf_bytes(&buf, at + 100, size - 100, POISON)
					      : far_bytes(env, 0, at + 100, size - 100, POISON),
					 -1);
		}
		if (!pass)
			far_fill(env, 0, 0, COUNT * size, 5, 0);
	}
	CHECK(buf_slack_whole(&buf) && far_slack(env, 0));
}

/* WRITEs and READs of both sides at the same time. */
static void case_bidirectional(struct env *env)
{
	enum { COUNT = 8 };
	uint64_t size = config.light ? 400000 : 2 * MIB + 11;
	struct buf buf;
	tcpx_request request[2 * COUNT];
	tcpx_region local, remote;

	/* near: [0,N) source, [N,2N) read here, [2N,3N) the far side writes, [3N,4N) it reads */
	buf_make(&buf, 4 * COUNT * size, 1);
	buf_fill(&buf, 0, COUNT * size, 1, 0);
	buf_fill(&buf, 3 * COUNT * size, COUNT * size, 4, 0);
	local = near_register(env, &buf, RW);
	remote = far_buf(env, 0, 2 * COUNT * size, RW, 0);
	far_buf(env, 1, 2 * COUNT * size, 0, 0);
	far_fill(env, 0, COUNT * size, COUNT * size, 2, 0);
	far_fill(env, 1, 0, COUNT * size, 3, 0);
	far_import(env, 0, local);
	for (uint32_t i = 0; i < COUNT; i++) {
		struct far_start write = {.op = TCPX_OP_WRITE,
					  .buf = 1,
					  .off = i * size,
					  .len = size,
					  .remote_off = (2 * COUNT + i) * size};
		struct far_start read = {.op = TCPX_OP_READ,
					 .buf = 1,
					 .off = (COUNT + i) * size,
					 .len = size,
					 .remote_off = (3 * COUNT + i) * size};
		tcpx_segment segment = {.local = local,
					.local_offset = i * size,
					.remote = remote,
					.remote_offset = i * size,
					.length = size};

		OK(far_start(env, 2 * i, &write));
		OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL,
				      &request[2 * i]));
		segment.local_offset = segment.remote_offset = (COUNT + i) * size;
		OK(tcpx_request_start(env->session, env->peer, TCPX_OP_READ, &segment, 1, NULL,
				      &request[2 * i + 1]));
		OK(far_start(env, 2 * i + 1, &read));
	}
	for (uint32_t i = 0; i < 2 * COUNT; i++) {
		OK(near_wait(env, request[i], NULL));
		OK(far_wait(env, i, LONG_NS, NULL, NULL));
	}
	CHECK_EQ(far_pattern(env, 0, 0, COUNT * size, 1, 0), -1);
	CHECK_EQ(buf_check(&buf, COUNT * size, COUNT * size, 2, 0), -1);
	CHECK_EQ(buf_check(&buf, 2 * COUNT * size, COUNT * size, 3, 0), -1);
	CHECK_EQ(far_pattern(env, 1, COUNT * size, COUNT * size, 4, 0), -1);
	CHECK(buf_slack_whole(&buf) && far_slack(env, 0) && far_slack(env, 1));
}

/* A request of low priority does not hold up one of high priority for ever, nor the other way. */
static void case_priority(struct env *env)
{
	struct buf buf;
	tcpx_request request[12];
	tcpx_segment segment = {0};

	buf_make(&buf, 12 * MIB, 0);
	buf_fill(&buf, 0, buf.size, 9, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, 12 * MIB, RW, 0);
	segment.length = MIB;
	for (int i = 0; i < 12; i++) {
		TCPX_OPTS(tcpx_request_opts, opts, .priority = i % 3 - 1);

		segment.local_offset = segment.remote_offset = (uint64_t)i * MIB;
		OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, &opts,
				      &request[i]));
	}
	for (int i = 0; i < 12; i++)
		OK(near_wait(env, request[i], NULL));
	CHECK_EQ(far_pattern(env, 0, 0, 12 * MIB, 9, 0), -1);
}

/* Address space of 4 GiB + a tail: the first part is one 64-MiB file again and again, the tail has
 * pages of its own, so an offset cut to 32 bits is seen. */
static uint8_t *huge_map(uint64_t tail)
{
	uint8_t *map = mmap(NULL, (4096 + 64) * MIB, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int fd = memfd_create("huge", MFD_CLOEXEC);

	CHECK(map != MAP_FAILED && fd >= 0 && ftruncate(fd, (off_t)(64 * MIB)) == 0);
	for (uint64_t at = 0; at < 4096 * MIB; at += 64 * MIB)
		CHECK(mmap(map + at, 64 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			   0) != MAP_FAILED);
	CHECK(mmap(map + 4096 * MIB, (tail + 4095) / 4096 * 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	close(fd);
	return map;
}

/* A segment > 4 GiB; both halves belong to one process, which is enough for the offsets. */
static void case_segment_over_4gib(struct env *env)
{
	uint64_t tail = 3 * MIB + 1;
	uint8_t token[TCPX_TOKEN_BYTES], *from, *to;
	tcpx_segment segment = {.length = 4096 * MIB + tail};

	if (sizeof(void *) < 8 || !conform_plain() || config.filters || config.processes != 1)
		SKIP("only with plain host memory in one process");
	from = huge_map(tail);
	to = huge_map(tail);
	pat_fill(from, 64 * MIB, 1, 0);
	pat_fill(from + 4096 * MIB, tail, 2, 0);
	memset(to, POISON, 64 * MIB);
	memset(to + 4096 * MIB, POISON, tail);
	for (int pass = 0; pass < 2; pass++) {
		struct far_side *side = env->side;
		TCPX_OPTS(tcpx_region_opts, opts, .rights = RW);
		tcpx_region far;

		segment.local = near_host(env, pass ? to : from, segment.length, 0);
		OK(tcpx_region_register(side->session, pass ? from : to, segment.length, &opts,
					&far));
		OK(tcpx_region_export(side->session, far, token));
		OK(tcpx_region_import(env->session, env->peer, token, sizeof(token),
				      &segment.remote));
		OK(near_run(env, pass ? TCPX_OP_READ : TCPX_OP_WRITE, &segment, 1, NULL));
		CHECK_EQ(pat_check(to, 64 * MIB, 1, 0), -1);
		CHECK_EQ(pat_check(to + 4096 * MIB, tail, 2, 0), -1);
		memset(to, POISON, 64 * MIB);
		memset(to + 4096 * MIB, POISON, tail);
		OK(tcpx_region_deregister(env->session, segment.local, 0));
		OK(tcpx_region_deregister(side->session, far, 0));
		check_alive();
	}
}

const struct case_row cases_bytes[] = {
	{"write_sizes", case_write_sizes, 0},
	{"read_sizes", case_read_sizes, 0},
	{"part_of_region", case_part_of_region, 0},
	{"repost", case_repost, 0},
	{"depth", case_depth, 0},
	{"bidirectional", case_bidirectional, 0},
	{"priority", case_priority, 0},
	{"segment_over_4gib", case_segment_over_4gib, CASE_HEAVY | CASE_ONCE | CASE_PLAIN},
	{0},
};
