/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends, and transfers between them of which every byte is compared. */
#include "beside.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"

#define POISON 0x77
#define HUNG_NS (60 * 1000000000ll) /* a guard, and always a failure */

static uint64_t sink_at(const struct beside *b, enum beside_kind kind)
{
	return b->bytes * (kind == BESIDE_WRITE_PIECES || kind == BESIDE_READ_PIECES ? 2 : 1);
}

static struct beside_end *sink_of(struct beside *b, enum beside_kind kind)
{
	return &b->end[kind == BESIDE_WRITE_WHOLE || kind == BESIDE_WRITE_PIECES];
}

static uint64_t pieces_of(const struct beside *b)
{
	return b->bytes / BESIDE_STRIDE;
}

/* Neither side's pieces are in order or touch; their number is a power of two. */
static uint64_t piece_from(uint64_t i)
{
	return i * BESIDE_STRIDE + i % 4 * BESIDE_PIECE;
}

static uint64_t piece_to(const struct beside *b, uint64_t i)
{
	return (5 * i + 1) % pieces_of(b) * BESIDE_STRIDE + i % 3 * BESIDE_PIECE;
}

void beside_fail(const char *file, int line, cuda_result result, const char *call)
{
	(void)sys_cuda_error(result, call);
	check_fail(file, line, "%s", error_last()->what);
}

void beside_enter(struct beside *b, struct beside_end *end, struct sys_cuda_scope *out_scope)
{
	(void)b;
	CHECK_MSG(sys_cuda_push(end->gpu, out_scope) == TCPX_OK, "%s", error_last()->what);
}

/* The GPU, its memory, and in its source random bytes. */
static void end_open(struct beside *b, struct beside_end *end, uint32_t device, uint64_t seed)
{
	tcpx_status status = sys_cuda_get(device, &end->gpu);
	struct sys_cuda_scope scope;
	void *image = NULL;
	struct rng rng;

	if (status == TCPX_ERR_UNSUPPORTED)
		SKIP("%s", error_last()->what);
	CHECK_MSG(status == TCPX_OK, "%s", error_last()->what);
	b->api = end->gpu->api;
	beside_enter(b, end, &scope);
	BESIDE_MUST(b->api->stream_create(&end->stream, CUDA_STREAM_NON_BLOCKING, 0));
	BESIDE_MUST(b->api->mem_alloc(&end->mem, 3 * b->bytes));
	BESIDE_MUST(b->api->host_alloc(&image, b->bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
	end->image = image;
	end->source = malloc(b->bytes);
	CHECK(end->source);
	rng_seed(&rng, seed);
	rng_fill(&rng, end->source, b->bytes);
	memcpy(end->image, end->source, b->bytes);
	BESIDE_MUST(b->api->copy_async(end->mem, (uintptr_t)end->image, b->bytes, end->stream));
	BESIDE_MUST(b->api->stream_synchronize(end->stream));
	sys_cuda_pop(&scope);
}

struct beside *beside_open(uint64_t bytes, int local, uint32_t far)
{
	static struct beside b;
	static struct fakecuda fake;
	const char *path = getenv("TCPX_CUDA_LIBRARY");

	b.bytes = bytes;
	b.local = local;
	CHECK(!(bytes & (bytes - 1)) && bytes >= 16 * BESIDE_STRIDE);
	b.want = malloc(bytes);
	CHECK(b.want);
	end_open(&b, &b.end[0], 0, 1);
	if (far >= (uint32_t)b.api->devices)
		far = (uint32_t)b.api->devices - 1;
	end_open(&b, &b.end[1], far, 2);
	b.gpus = far ? 2 : 1;
	if (path && !fakecuda_open(path, &fake))
		b.fake = &fake;
	printf("  GPU 0 to GPU %u of %d%s\n", far, b.api->devices, b.fake ? ", the stand-in" : "");
	return &b;
}

static void prepare(struct beside *b, enum beside_kind kind)
{
	TCPX_OPTS(tcpx_request_opts, opts, .queue = 1, .user = &b->requests[kind]);
	enum tcpx_op op = sink_of(b, kind) == &b->end[1] ? TCPX_OP_WRITE : TCPX_OP_READ;
	int scattered = sink_at(b, kind) != b->bytes;
	uint64_t count = scattered ? pieces_of(b) : 1;
	tcpx_segment *segments = calloc(count, sizeof(*segments));

	CHECK(segments);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t from = scattered ? piece_from(i) : 0;
		uint64_t to = sink_at(b, kind) + (scattered ? piece_to(b, i) : 0);

		segments[i] = (tcpx_segment){
			.local = b->end[0].region,
			.local_offset = op == TCPX_OP_WRITE ? from : to,
			.remote = b->remote,
			.remote_offset = op == TCPX_OP_WRITE ? to : from,
			.length = scattered ? BESIDE_PIECE : b->bytes,
		};
	}
	BESIDE_OK(tcpx_request_prepare(b->end[0].session, b->peer, op, segments, count, &opts,
				       &b->requests[kind]));
	free(segments);
}

static void end_register(struct beside *b, struct beside_end *end, uint32_t rights)
{
	TCPX_OPTS(tcpx_session_opts, opts,
		  .flags = b->local ? TCPX_SESSION_LOCAL_ONLY : TCPX_SESSION_NO_LOCAL);
	TCPX_OPTS(tcpx_region_opts, memory, .kind = TCPX_MEM_CUDA, .device = end->gpu->ordinal,
		  .rights = rights);

	BESIDE_OK(tcpx_session_open(&opts, &end->session));
	BESIDE_OK(tcpx_region_register(end->session, (void *)(uintptr_t)end->mem, 3 * b->bytes,
				       &memory, &end->region));
}

void beside_connect(struct beside *b)
{
	uint8_t info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	struct beside_end *near = &b->end[0], *far = &b->end[1];
	tcpx_peer_info peer = {.sz = sizeof(peer)};
	uint16_t port;
	size_t len;

	end_register(b, near, 0);
	end_register(b, far, TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	BESIDE_OK(tcpx_session_listen(far->session, NULL, &port));
	BESIDE_OK(tcpx_session_info(far->session, info, sizeof(info), &len));
	BESIDE_OK(tcpx_region_export(far->session, far->region, token));
	BESIDE_OK(tcpx_session_connect(near->session, info, len, NULL, &b->peer));
	BESIDE_OK(tcpx_region_import(near->session, b->peer, token, sizeof(token), &b->remote));
	BESIDE_OK(tcpx_peer_query(near->session, b->peer, &peer));
	CHECK_STR(peer.transport, b->local ? "local" : "tcp");
	for (int kind = 0; kind < BESIDE_KINDS; kind++)
		prepare(b, (enum beside_kind)kind);
}

void beside_close(struct beside *b)
{
	tcpx_session_close(b->end[0].session);
	tcpx_session_close(b->end[1].session);
	b->end[0].session = b->end[1].session = NULL;
}

/* By the copy engine alone, as all of these: a kernel of the application may fill the GPU. */
static void poison(struct beside *b, enum beside_kind kind)
{
	struct beside_end *end = sink_of(b, kind);
	struct sys_cuda_scope scope;

	memset(end->image, POISON, b->bytes);
	beside_enter(b, end, &scope);
	BESIDE_MUST(b->api->copy_async(end->mem + sink_at(b, kind), (uintptr_t)end->image, b->bytes,
				       end->stream));
	BESIDE_MUST(b->api->stream_synchronize(end->stream));
	sys_cuda_pop(&scope);
}

static void compare(struct beside *b, enum beside_kind kind)
{
	struct beside_end *end = sink_of(b, kind);
	const uint8_t *source = b->end[end == &b->end[0]].source;
	struct sys_cuda_scope scope;
	uint64_t at = 0;

	memset(end->image, 0, b->bytes);
	beside_enter(b, end, &scope);
	BESIDE_MUST(b->api->copy_async((uintptr_t)end->image, end->mem + sink_at(b, kind), b->bytes,
				       end->stream));
	BESIDE_MUST(b->api->stream_synchronize(end->stream));
	sys_cuda_pop(&scope);
	if (sink_at(b, kind) == b->bytes) {
		memcpy(b->want, source, b->bytes);
	} else {
		memset(b->want, POISON, b->bytes);
		for (uint64_t i = 0; i < pieces_of(b); i++)
			memcpy(b->want + piece_to(b, i), source + piece_from(i), BESIDE_PIECE);
	}
	if (!memcmp(b->want, end->image, b->bytes))
		return;
	while (b->want[at] == end->image[at])
		at++;
	check_fail(__FILE__, __LINE__, "kind %d: byte %" PRIu64 " is %02x, not %02x", kind, at,
		   end->image[at], b->want[at]);
}

static void ended(struct beside *b, enum beside_kind kind, tcpx_status status)
{
	tcpx_error error = {.sz = sizeof(error)};

	if (status == TCPX_OK)
		return;
	if (status == TCPX_IN_PROGRESS)
		check_fail(__FILE__, __LINE__, "kind %d hangs", kind);
	CHECK_EQ(tcpx_request_error(b->end[0].session, b->requests[kind], &error), TCPX_OK);
	check_fail(__FILE__, __LINE__, "kind %d: %s: %s", kind, tcpx_status_name(status),
		   error.what);
}

/* The next of them that ended. */
static enum beside_kind take_one(struct beside *b)
{
	tcpx_session *session = b->end[0].session;
	tcpx_completion done = {.sz = sizeof(done)};
	tcpx_event event = {.sz = sizeof(event)};
	int got;

	while (!(got = tcpx_session_poll(session, &done, 1))) {
		while (tcpx_session_event(session, &event) == TCPX_OK)
			;
		CHECK_EQ(tcpx_session_wait(session, HUNG_NS), TCPX_OK);
	}
	CHECK_EQ(got, 1);
	return (enum beside_kind)((tcpx_request *)done.user - b->requests);
}

void beside_move(struct beside *b, enum beside_kind kind)
{
	tcpx_request request = b->requests[kind];
	int64_t begin_ns;

	check_alive();
	poison(b, kind);
	begin_ns = clock_now_ns();
	BESIDE_OK(tcpx_request_post(b->end[0].session, request));
	ended(b, kind, tcpx_request_wait(b->end[0].session, request, HUNG_NS, NULL));
	b->took_ns[kind] = clock_now_ns() - begin_ns;
	CHECK_EQ(take_one(b), kind);
	compare(b, kind);
}

void beside_move_all(struct beside *b)
{
	for (int kind = 0; kind < BESIDE_KINDS; kind++)
		beside_move(b, (enum beside_kind)kind);
}

void beside_say(const struct beside *b, const char *when)
{
	printf("  %s, in ms:", when);
	for (int kind = 0; kind < BESIDE_KINDS; kind++)
		printf(" %.1f", (double)b->took_ns[kind] * 1e-6);
	printf("\n");
}

void beside_load_begin(struct beside *b)
{
	for (int kind = 0; kind < BESIDE_KINDS; kind++)
		poison(b, (enum beside_kind)kind);
	for (int kind = 0; kind < BESIDE_KINDS; kind++)
		BESIDE_OK(tcpx_request_post(b->end[0].session, b->requests[kind]));
}

void beside_load_next(struct beside *b)
{
	tcpx_session *session = b->end[0].session;
	enum beside_kind kind;

	check_alive();
	kind = take_one(b);
	ended(b, kind, tcpx_request_test(session, b->requests[kind], NULL));
	BESIDE_OK(tcpx_request_post(session, b->requests[kind]));
}

void beside_load_stop(struct beside *b)
{
	for (int kind = 0; kind < BESIDE_KINDS; kind++)
		ended(b, (enum beside_kind)kind,
		      tcpx_request_wait(b->end[0].session, b->requests[kind], HUNG_NS, NULL));
	for (int kind = 0; kind < BESIDE_KINDS; kind++)
		(void)take_one(b);
	for (int kind = 0; kind < BESIDE_KINDS; kind++)
		compare(b, (enum beside_kind)kind);
}
