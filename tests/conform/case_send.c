/* SPDX-License-Identifier: Apache-2.0 */
/* SEND and RECV: order, truncation, empty messages, eager and rendezvous, cancels, the transfer. */
#include "conform.h"

struct post {
	struct buf buf;
	tcpx_segment segment;
	tcpx_request request;
};

static void post_make(struct env *env, struct post *post, uint64_t size)
{
	buf_make(&post->buf, size ? size : 1, size % 8);
	post->segment = (tcpx_segment){.length = size};
	post->segment.local = near_register(env, &post->buf, 0);
}

static void post_free(struct env *env, struct post *post)
{
	OK(tcpx_request_release(env->session, post->request));
	OK(tcpx_region_deregister(env->session, post->segment.local, 0));
	buf_free(&post->buf);
}

static void post_start(struct env *env, struct post *post, enum tcpx_op op)
{
	OK(tcpx_request_start(env->session, env->peer, op, &post->segment,
			      post->segment.length ? 1 : 0, NULL, &post->request));
}

static void send_near(struct env *env, struct post *post, uint64_t size, uint64_t seed)
{
	post_make(env, post, size);
	buf_fill(&post->buf, 0, size, seed, 0);
	post_start(env, post, TCPX_OP_SEND);
}

static tcpx_status recv_far(struct env *env, uint32_t slot, uint32_t buf, uint64_t off,
			    uint64_t len)
{
	struct far_start what = {.op = TCPX_OP_RECV, .buf = buf, .off = off, .len = len};

	return far_start(env, slot, &what);
}

/* Every size with the RECV first, and with the SEND first, both directions. */
static void case_send_sizes(struct env *env)
{
	static const uint64_t sizes[] = {0,	1,     8,     100,    4096,   16383,
					 16384, 16385, 65536, 524288, 524289, 5000001};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int recv_first = 0; recv_first < 2; recv_first++) {
			uint64_t size = sizes[i], bytes = 0, message = 0;
			struct far_start back = {.op = TCPX_OP_SEND, .len = size};
			tcpx_completion done = {.sz = sizeof(done)};
			struct post post, answer;

			far_buf(env, 0, size + 10, 0, 3);
			if (recv_first)
				OK(recv_far(env, 0, 0, 0, size));
			send_near(env, &post, size, i + 1);
			if (!recv_first)
				OK(recv_far(env, 0, 0, 0, size));
			OK(far_wait(env, 0, LONG_NS, &bytes, &message));
			CHECK_EQ(bytes, size);
			CHECK_EQ(message, size);
			OK(near_wait(env, post.request, &done));
			CHECK_EQ(done.bytes, size);
			CHECK_EQ(far_pattern(env, 0, 0, size, i + 1, 0), -1);
			CHECK_EQ(far_bytes(env, 0, size, 10, POISON), -1);
			CHECK(far_slack(env, 0));

			far_fill(env, 0, 0, size, i + 50, 0);
			post_make(env, &answer, size);
			if (recv_first)
				post_start(env, &answer, TCPX_OP_RECV);
			OK(far_start(env, 1, &back));
			if (!recv_first)
				post_start(env, &answer, TCPX_OP_RECV);
			OK(near_wait(env, answer.request, &done));
			CHECK_EQ(done.bytes, size);
			CHECK_EQ(done.message_bytes, size);
			CHECK_EQ(buf_check(&answer.buf, 0, size, i + 50, 0), -1);
			CHECK(buf_slack_whole(&answer.buf));
			OK(far_wait(env, 1, LONG_NS, NULL, NULL));
			post_free(env, &post);
			post_free(env, &answer);
			OK(far_simple(env, FAR_RELEASE, 0, 0, 0, 0, 0));
			OK(far_simple(env, FAR_RELEASE, 1, 0, 0, 0, 0));
			OK(far_simple(env, FAR_DEREG, 0, 0, 0, 0, 0));
		}
	}
}

/* The k-th SEND meets the k-th RECV whatever their sizes and whichever was posted first. */
static void case_send_order(struct env *env)
{
	enum { COUNT = 60 };
	static struct post post[COUNT];
	static uint64_t size[COUNT];
	uint64_t at = 0, total = 0;

	for (int i = 0; i < COUNT; i++) {
		size[i] = i % 4 == 3   ? 200001 + (uint64_t)i
			  : i % 4 == 2 ? 0
				       : 10 + (uint64_t)i * 300;
		total += size[i];
	}
	far_buf(env, 0, total, 0, 1);
	for (int i = 0; i < COUNT; i++) {
		if (i >= COUNT / 2) /* the first half arrives unexpected */
			break;
		send_near(env, &post[i], size[i], 1000 + (uint64_t)i);
	}
	for (uint32_t i = 0; i < COUNT; i++) {
		OK(recv_far(env, i, 0, at, size[i]));
		at += size[i];
	}
	for (int i = COUNT / 2; i < COUNT; i++)
		send_near(env, &post[i], size[i], 1000 + (uint64_t)i);
	at = 0;
	for (uint32_t i = 0; i < COUNT; i++) {
		uint64_t bytes;

		OK(far_wait(env, i, LONG_NS, &bytes, NULL));
		CHECK_EQ(bytes, size[i]);
		CHECK_EQ(far_pattern(env, 0, at, size[i], 1000 + i, 0), -1);
		at += size[i];
		OK(near_wait(env, post[i].request, NULL));
		post_free(env, &post[i]);
	}
	CHECK(far_slack(env, 0));
}

static void case_send_truncated(struct env *env)
{
	static const uint64_t sizes[][2] = {{100, 60},	      {100, 0},	     {16384, 1},
					    {300000, 200000}, {3000000, 10}, {3000000, 0},
					    {50, 100},	      {100, 5000000}};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int recv_first = 0; recv_first < 2; recv_first++) {
			uint64_t send = sizes[i][0], room = sizes[i][1], bytes = 0, message = 0;
			uint64_t got = send < room ? send : room;
			tcpx_status status;
			struct post post;

			far_buf(env, 0, room + 1, 0, 0);
			if (recv_first)
				OK(recv_far(env, 0, 0, 0, room));
			send_near(env, &post, send, 5);
			if (!recv_first)
				OK(recv_far(env, 0, 0, 0, room));
			status = far_wait(env, 0, LONG_NS, &bytes, &message);
			EXPECT(status, send > room ? TCPX_ERR_TRUNCATED : TCPX_OK);
			CHECK_EQ(bytes, got);
			CHECK_EQ(message, send);
			CHECK_EQ(far_pattern(env, 0, 0, got, 5, 0), -1);
			CHECK_EQ(far_bytes(env, 0, got, room + 1 - got, POISON), -1);
			CHECK(far_slack(env, 0));
			status = near_wait(env, post.request, NULL);
			CHECK_MSG(status == TCPX_OK ||
					  (send > room && status == TCPX_ERR_TRUNCATED),
				  "%s", tcpx_status_name(status));
			post_free(env, &post);
			OK(far_simple(env, FAR_RELEASE, 0, 0, 0, 0, 0));
			OK(far_simple(env, FAR_DEREG, 0, 0, 0, 0, 0));
		}
	}
}

/* Gathered at the sender, scattered at the receiver. */
static void case_send_lists(struct env *env)
{
	enum { N = 300 };
	static tcpx_segment out[N], in[N];
	tcpx_request request[2];
	uint64_t total = 0, at = 0;
	struct buf buf[2];
	struct far_start echo[2] = {{.op = TCPX_OP_RECV}, {.op = TCPX_OP_SEND}};

	buf_make(&buf[0], 2 * MIB, 1);
	buf_make(&buf[1], 2 * MIB, 2);
	buf_fill(&buf[0], 0, buf[0].size, 8, 0);
	out[0].local = near_register(env, &buf[0], 0);
	in[0].local = near_register(env, &buf[1], 0);
	for (uint64_t i = 0; i < N; i++) {
		uint64_t len = 1 + i * 37 % 5000;

		out[i] = (tcpx_segment){
			.local = out[0].local, .local_offset = (N - 1 - i) * 6000, .length = len};
		in[i] = (tcpx_segment){
			.local = in[0].local, .local_offset = i * 6000 + 11, .length = len};
		total += len;
	}
	far_buf(env, 0, total, 0, 0);
	echo[0].len = echo[1].len = total;
	OK(far_start(env, 0, &echo[0]));
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_SEND, out, N, NULL, &request[0]));
	OK(far_wait(env, 0, LONG_NS, NULL, NULL));
	OK(near_wait(env, request[0], NULL));
	for (int i = 0; i < N; i++) {
		CHECK_EQ(far_pattern(env, 0, at, out[i].length, 8, out[i].local_offset), -1);
		at += out[i].length;
	}
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, in, N, NULL, &request[1]));
	OK(far_start(env, 1, &echo[1]));
	OK(near_wait(env, request[1], NULL));
	for (int i = 0; i < N; i++) {
		uint64_t to = in[i].local_offset, len = in[i].length;

		CHECK_EQ(buf_check(&buf[1], to, len, 8, out[i].local_offset), -1);
		CHECK_EQ(buf_bytes(&buf[1], to + len, 6000 - len - 11, POISON), -1);
	}
	CHECK(buf_slack_whole(&buf[1]));
}

/* A message of one piece falls into a RECV of many: a chunk has more pieces than a table. */
static void case_send_into_many_pieces(struct env *env)
{
	enum { N = 20000, PIECE = 100, STRIDE = 128 };
	static uint8_t image[N * STRIDE];
	static tcpx_segment in[N];
	tcpx_request request;
	struct buf buf;
	struct far_start send = {.op = TCPX_OP_SEND, .len = (uint64_t)N * PIECE};

	buf_make(&buf, (uint64_t)N * STRIDE, 2);
	in[0].local = near_register(env, &buf, 0);
	for (uint64_t i = 0; i < N; i++)
		in[i] = (tcpx_segment){
			.local = in[0].local, .local_offset = i * STRIDE, .length = PIECE};
	far_buf(env, 0, send.len, 0, 0);
	far_fill(env, 0, 0, send.len, 4, 0);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, in, N, NULL, &request));
	OK(far_start(env, 0, &send));
	OK(near_wait(env, request, NULL));
	OK(far_wait(env, 0, LONG_NS, NULL, NULL));
	memset(image, POISON, sizeof(image));
	for (uint64_t i = 0; i < N; i++)
		pat_fill(image + i * STRIDE, PIECE, 4, i * PIECE);
	CHECK_EQ(buf_differ(&buf, 0, image, sizeof(image)), 0);
	CHECK(buf_slack_whole(&buf));
}

/* A RECV that is cancelled before it was matched leaves no hole. */
static void case_recv_cancel_no_hole(struct env *env)
{
	static const uint64_t sizes[] = {100, 100000};

	for (size_t s = 0; s < 2; s++) {
		struct far_start send = {.op = TCPX_OP_SEND, .buf = 0, .len = sizes[s]};
		struct post post[4];

		far_buf(env, 0, 2 * sizes[s], 0, 0);
		far_fill(env, 0, 0, 2 * sizes[s], 3, 0);
		for (int i = 0; i < 4; i++) {
			post_make(env, &post[i], sizes[s]);
			post_start(env, &post[i], TCPX_OP_RECV);
		}
		EXPECT(tcpx_request_cancel_wait(env->session, post[0].request, LONG_NS),
		       TCPX_ERR_CANCELLED);
		OK(tcpx_request_cancel(env->session, post[2].request));
		EXPECT(near_wait(env, post[2].request, NULL), TCPX_ERR_CANCELLED);
		OK(far_start(env, 0, &send));
		send.off = sizes[s];
		OK(far_start(env, 1, &send));
		OK(near_wait(env, post[1].request, NULL));
		OK(near_wait(env, post[3].request, NULL));
		CHECK_EQ(buf_bytes(&post[0].buf, 0, sizes[s], POISON), -1);
		CHECK_EQ(buf_check(&post[1].buf, 0, sizes[s], 3, 0), -1);
		CHECK_EQ(buf_bytes(&post[2].buf, 0, sizes[s], POISON), -1);
		CHECK_EQ(buf_check(&post[3].buf, 0, sizes[s], 3, sizes[s]), -1);
		for (int i = 0; i < 4; i++)
			post_free(env, &post[i]);
		for (uint32_t i = 0; i < 2; i++) {
			OK(far_wait(env, i, LONG_NS, NULL, NULL));
			OK(far_simple(env, FAR_RELEASE, i, 0, 0, 0, 0));
		}
		OK(far_simple(env, FAR_DEREG, 0, 0, 0, 0, 0));
	}
}

/* A notification that was taken there says that what was announced before is known there. */
static void announced(struct env *env)
{
	struct far_take take = {.timeout_ns = LONG_NS};

	OK(tcpx_notify_send(env->session, env->peer, "x", 1));
	OK(far_take(env, &take, NULL));
}

/* A SEND that failed consumes its RECV with an error; the next pair is not disturbed. */
static void case_send_cancel_consumes(struct env *env)
{
	struct post post[2];
	tcpx_status status;

	far_buf(env, 0, 2 * MIB, 0, 0);
	send_near(env, &post[0], MIB, 1);
	EXPECT(tcpx_request_test(env->session, post[0].request, NULL), TCPX_IN_PROGRESS);
	announced(env);
	EXPECT(tcpx_request_cancel_wait(env->session, post[0].request, LONG_NS),
	       TCPX_ERR_CANCELLED);
	send_near(env, &post[1], MIB, 2);
	OK(recv_far(env, 0, 0, 0, MIB));
	OK(recv_far(env, 1, 0, MIB, MIB));
	status = far_wait(env, 0, LONG_NS, NULL, NULL);
	CHECK_MSG(status == TCPX_ERR_CANCELLED || status == TCPX_ERR_REMOTE, "%s",
		  tcpx_status_name(status));
	OK(far_wait(env, 1, LONG_NS, NULL, NULL));
	OK(near_wait(env, post[1].request, NULL));
	CHECK_EQ(far_bytes(env, 0, 0, MIB, POISON), -1);
	CHECK_EQ(far_pattern(env, 0, MIB, MIB, 2, 0), -1);
	post_free(env, &post[0]);
	post_free(env, &post[1]);
}

/* More small messages than any eager budget while nobody receives: no loss, no deadlock. */
static void case_send_unexpected_flood(struct env *env)
{
	enum { COUNT = 3000 };
	static tcpx_request request[COUNT];
	struct buf buf;
	tcpx_segment segment = {0};
	uint64_t size = 1000;

	buf_make(&buf, COUNT * size, 0);
	buf_fill(&buf, 0, buf.size, 6, 0);
	segment.local = near_register(env, &buf, 0);
	segment.length = size;
	far_buf(env, 0, COUNT * size, TCPX_RIGHT_WRITE, 0);
	for (uint64_t i = 0; i < COUNT; i++) {
		segment.local_offset = i * size;
		OK(tcpx_request_start(env->session, env->peer, TCPX_OP_SEND, &segment, 1, NULL,
				      &request[i]));
	}
	for (uint64_t i = 0; i < COUNT; i++) {
		OK(recv_far(env, i % FAR_REQUESTS, 0, i * size, size));
		OK(far_wait(env, i % FAR_REQUESTS, LONG_NS, NULL, NULL));
		OK(far_simple(env, FAR_RELEASE, i % FAR_REQUESTS, 0, 0, 0, 0));
	}
	CHECK_EQ(far_pattern(env, 0, 0, COUNT * size, 6, 0), -1);
	for (int i = 0; i < COUNT; i++) {
		OK(near_wait(env, request[i], NULL));
		OK(tcpx_request_release(env->session, request[i]));
	}
}

/* The transfer object: 128 posts, counters, one wait, release. */
static void case_transfer(struct env *env)
{
	enum { CHUNKS = 128 };
	uint64_t size = 40000;
	tcpx_transfer *transfer;
	struct buf buf;
	tcpx_segment segment = {0};

	buf_make(&buf, CHUNKS * size, 1);
	buf_fill(&buf, 0, buf.size, 4, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, CHUNKS * size, TCPX_RIGHT_WRITE | TCPX_RIGHT_READ, 0);
	OK(tcpx_transfer_create(env->session, env->peer, &transfer));
	CHECK_EQ(tcpx_transfer_total(transfer), 0);
	CHECK_EQ(tcpx_transfer_is_complete(transfer), 1);
	for (uint64_t i = 0; i < CHUNKS; i++) {
		segment.local_offset = segment.remote_offset = i * size;
		segment.length = size;
		OK(tcpx_transfer_post(transfer, TCPX_OP_WRITE, &segment));
	}
	CHECK_EQ(tcpx_transfer_total(transfer), CHUNKS);
	OK(tcpx_transfer_wait(transfer, LONG_NS));
	CHECK_EQ(tcpx_transfer_completed(transfer), CHUNKS);
	CHECK_EQ(tcpx_transfer_is_complete(transfer), 1);
	CHECK_EQ(far_pattern(env, 0, 0, CHUNKS * size, 4, 0), -1);
	segment.length = size;
	OK(tcpx_transfer_post(transfer, TCPX_OP_RECV, &segment)); /* never matched */
	CHECK_EQ(tcpx_transfer_is_complete(transfer), 0);
	EXPECT(tcpx_transfer_wait(transfer, 10 * MS), TCPX_IN_PROGRESS);
	CHECK_EQ(tcpx_transfer_completed(transfer), CHUNKS);
	tcpx_transfer_release(transfer);
	tcpx_transfer_release(NULL);
	OK(tcpx_region_deregister(env->session, segment.local, LONG_NS));
	OK(tcpx_transfer_create(env->session, env->peer, &transfer));
	EXPECT(tcpx_transfer_post(transfer, TCPX_OP_WRITE, &segment), TCPX_ERR_STALE);
	CHECK_EQ(tcpx_transfer_total(transfer), 0);
	tcpx_transfer_release(transfer);
}

const struct case_row cases_send[] = {
	{"send_sizes", case_send_sizes, 0},
	{"send_order", case_send_order, 0},
	{"send_truncated", case_send_truncated, 0},
	{"send_lists", case_send_lists, 0},
	{"send_into_many_pieces", case_send_into_many_pieces, 0},
	{"recv_cancel_no_hole", case_recv_cancel_no_hole, 0},
	{"send_cancel_consumes", case_send_cancel_consumes, 0},
	{"send_unexpected_flood", case_send_unexpected_flood, 0},
	{"transfer", case_transfer, 0},
	{0},
};
