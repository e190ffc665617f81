/* SPDX-License-Identifier: Apache-2.0 */
/* See plugin_rig.h. */
#include "plugin_rig.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/rng.h"
#include "emulator.h"
#include "fakecuda/fakecuda.h"
#include "sys/cuda.h"

static struct emulator emulator; /* path NULL: this side has no plugin */
static struct fakecuda fake;
static struct sys_cuda_gpu *gpu;

void side_ok(const char *file, int line, tcpx_status got, tcpx_status want)
{
	if (got != want)
		check_fail(file, line, "%s, not %s: %s", tcpx_status_name(got),
			   tcpx_status_name(want), tcpx_last_error()->what);
}

void side_env(const char *name, const char *value)
{
	CHECK(setenv(name, value, 1) == 0);
}

void side_both(void (*run)(struct side *side, void *arg), void *arg)
{
	struct side side = {.index = 0};
	int fds[2], status = 0;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	side.other = fork();
	CHECK(side.other >= 0);
	side.index = side.other == 0;
	if (!side.other) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		check_alive();
		side.other = getppid();
	}
	side.fd = fds[side.index];
	close(fds[!side.index]);
	side.name = side.index ? "second" : "first";
	run(&side, arg);
	if (side.index)
		exit(0);
	CHECK(waitpid(side.other, &status, 0) == side.other);
	CHECK_MSG(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : !WEXITSTATUS(status),
		  "the other process ended with %#x", status);
	close(side.fd);
}

struct side_case {
	void (*run)(struct side *side, void *row);
	void *row;
};

static void case_run(void *arg)
{
	const struct side_case *one = arg;

	side_both(one->run, one->row);
}

int side_main(void (*run)(struct side *side, void *row), const void *rows, size_t count,
	      size_t bytes, const char *only)
{
	struct check_result result = {0};

	for (size_t i = 0; i < count; i++) {
		struct side_case one = {run, (char *)rows + i * bytes};
		struct check_case row = {*(const char **)one.row, case_run};

		if (!only || strstr(row.name, only))
			check_case_run(&row, &one, &result);
	}
	return check_end(&result);
}

void side_say(struct side *side, const void *data, size_t bytes)
{
	CHECK(send(side->fd, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
}

void side_hear(struct side *side, void *data, size_t bytes)
{
	CHECK_MSG(recv(side->fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes,
		  "the other process is gone");
}

void side_meet(struct side *side)
{
	char here = 'h', there = 0;

	side_say(side, &here, 1);
	side_hear(side, &there, 1);
	check_alive();
}

void side_open(struct side *side, const char *plugin)
{
	TCPX_OPTS(tcpx_session_opts, opts, .name = side->name, .bind = "127.0.0.1",
		  .flags = TCPX_SESSION_NO_LOCAL, .plugin = plugin, .nic = side->nic,
		  .unpack = side->unpack, .message_gpu = side->gpu ? side->device + 1 : 0);
	char chunk[16];

	snprintf(chunk, sizeof(chunk), "%u", MESSAGE);
	setenv("NCCL_DYNAMIC_CHUNK_SIZE", chunk, 0);
	setenv("TCPX_MESSAGE_BYTES", chunk, 0);
	setenv("TCPX_PLUGIN_HOST", side->gpu ? "0" : "1", 0);
	setenv("TCPX_GPUDIRECT_SAME_HOST", "1", 0);
	setenv("TCPX_PAIRING", "off", 0);
	setenv("TCPX_GPUDIRECT_CHECK", "0", 0);
	setenv("TCPXEMU_STEER", "off", 0);
	OK(tcpx_session_open(&opts, &side->session));
	CHECK_MSG(!plugin || emulator_find(plugin, &emulator), "the emulator is not loaded");
}

tcpx_peer_info side_peer(struct side *side)
{
	tcpx_peer_info info = {.sz = sizeof(info)};

	OK(tcpx_peer_query(side->session, side->peer, &info));
	return info;
}

/* Each is told of by an event of its own, or by the peer's when it was there before the peer. The
 * hang guard ends it. */
static void await_channels(struct side *side, uint32_t channels)
{
	struct pollfd events = {.fd = tcpx_session_fd(side->session), .events = POLLIN};
	tcpx_event event = {.sz = sizeof(event)};

	while (side_peer(side).message_channels < channels)
		if (tcpx_session_event(side->session, &event) == TCPX_IN_PROGRESS)
			CHECK_EQ(poll(&events, 1, -1), 1);
}

void side_connect(struct side *side, uint32_t channels)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .timeout_ns = side->patience_ns);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	size_t bytes;

	if (side->index) {
		OK(tcpx_session_listen(side->session, NULL, NULL));
		OK(tcpx_session_info(side->session, info, sizeof(info), &bytes));
		side_say(side, &bytes, sizeof(bytes));
		side_say(side, info, bytes);
		OK(tcpx_session_accept(side->session, LONG_NS, &side->peer));
	} else {
		side_hear(side, &bytes, sizeof(bytes));
		side_hear(side, info, bytes);
		OK(tcpx_session_connect(side->session, info, bytes, &opts, &side->peer));
	}
	await_channels(side, channels);
	side_meet(side);
}

struct tcpxemu_stats side_stats(void)
{
	struct tcpxemu_stats stats = {0};

	if (emulator.path)
		emulator.stats(&stats);
	return stats;
}

uint64_t side_violations(const char *code)
{
	return emulator.violations(code);
}

void side_stats_wait(struct tcpxemu_stats *stats)
{
	CHECK(emulator.path);
	emulator.stats_wait(stats);
}

static void close_all(struct side *side)
{
	tcpx_session_close(side->session);
	side->session = NULL;
	if (gpu)
		sys_cuda_put(gpu);
	gpu = NULL;
}

void side_close_wrong(struct side *side, const char *code)
{
	struct tcpxemu_stats stats;

	close_all(side);
	if (!emulator.path)
		return;
	stats = emulator_closed(&emulator);
	CHECK_EQ(stats.pages_in_use, 0);
	for (int i = 0; i <= TCPXEMU_GPUS_MAX; i++)
		CHECK(stats.pool_imports[i] <= 1);
	/* of a comm that failed nothing is consumed any more */
	CHECK_EQ(stats.violations,
		 side_violations("unconsumed") + (code ? side_violations(code) : 0));
}

void side_close_broken(struct side *side)
{
	side_close_wrong(side, NULL);
}

void side_close(struct side *side)
{
	side_close_broken(side);
	CHECK_EQ(side_stats().violations, 0);
	CHECK(side_stats().in_flight_peak <= 16);
}

/* ---- memory ---- */

static void gpu_begin(const struct side *side)
{
	if (gpu)
		return;
	CHECK(fakecuda_open(getenv("TCPX_CUDA_LIBRARY"), &fake) == 0);
	OK(sys_cuda_get(side->device, &gpu));
}

void area_make(struct side *side, struct area *area, uint64_t bytes)
{
	TCPX_OPTS(tcpx_region_opts, opts, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE,
		  .kind = side->gpu ? TCPX_MEM_CUDA : TCPX_MEM_HOST, .device = side->device);
	struct sys_cuda_scope scope;
	cuda_ptr ptr;

	area->bytes = bytes;
	if (side->gpu) {
		gpu_begin(side);
		OK(sys_cuda_push(gpu, &scope));
		CHECK_EQ(gpu->api->mem_alloc(&ptr, bytes), CUDA_OK);
		sys_cuda_pop(&scope);
		area->at = ptr;
	} else {
		area->at = (uintptr_t)aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
		CHECK(area->at);
	}
	area_set(side, area, 0, bytes, 0xa5);
	OK(tcpx_region_register(side->session, (void *)area->at, bytes, &opts, &area->region));
}

void area_swap(struct side *side, struct area *area)
{
	uint8_t token[TCPX_TOKEN_BYTES];

	OK(tcpx_region_export(side->session, area->region, token));
	side_say(side, token, sizeof(token));
	side_hear(side, token, sizeof(token));
	OK(tcpx_region_import(side->session, side->peer, token, sizeof(token), &area->remote));
}

tcpx_segment area_pair(struct side *side, struct area *mine, struct area *open, uint64_t bytes)
{
	area_make(side, mine, bytes);
	area_make(side, open, bytes);
	area_swap(side, open);
	return (tcpx_segment){.local = mine->region, .remote = open->remote, .length = bytes};
}

void area_free(struct side *side, struct area *area)
{
	struct sys_cuda_scope scope;

	if (side->session)
		OK(tcpx_region_deregister(side->session, area->region, LONG_NS));
	if (side->gpu) {
		OK(sys_cuda_push(gpu, &scope));
		CHECK_EQ(gpu->api->mem_free(area->at), CUDA_OK);
		sys_cuda_pop(&scope);
	} else {
		free((void *)area->at);
	}
	area->at = 0;
}

static void put(struct side *side, struct area *area, uint64_t off, const void *data,
		uint64_t bytes)
{
	CHECK(off + bytes <= area->bytes);
	if (side->gpu)
		CHECK_EQ(fake.write(area->at + off, data, bytes), 0);
	else
		memcpy((uint8_t *)area->at + off, data, bytes);
}

void area_get(struct side *side, struct area *area, uint64_t off, void *data, uint64_t bytes)
{
	CHECK(off + bytes <= area->bytes);
	if (side->gpu)
		CHECK_EQ(fake.read(area->at + off, data, bytes), 0);
	else
		memcpy(data, (uint8_t *)area->at + off, bytes);
}

/* Bytes that put_all and has free: all of one value, or of the pattern. */
static uint8_t *alike(uint8_t value, uint64_t bytes)
{
	uint8_t *data = malloc(bytes + 1);

	CHECK(data);
	memset(data, value, bytes);
	return data;
}

static uint8_t *pattern(uint64_t seed, uint64_t bytes)
{
	uint8_t *data = alike(0, bytes);
	struct rng rng;
	uint64_t word = 0;

	rng_seed(&rng, seed);
	for (uint64_t i = 0; i < bytes; i++) {
		if (i % 8 == 0)
			word = rng_u64(&rng);
		data[i] = (uint8_t)(word >> i % 8 * 8);
	}
	return data;
}

static void put_all(struct side *side, struct area *area, uint64_t off, uint64_t bytes,
		    uint8_t *data)
{
	put(side, area, off, data, bytes);
	free(data);
}

static bool has(struct side *side, struct area *area, uint64_t off, uint64_t bytes, uint8_t *want)
{
	uint8_t *got = alike(0, bytes);
	bool same;

	area_get(side, area, off, got, bytes);
	same = !memcmp(got, want, bytes);
	free(got);
	free(want);
	return same;
}

void area_fill(struct side *side, struct area *area, uint64_t off, uint64_t bytes, uint64_t seed)
{
	put_all(side, area, off, bytes, pattern(seed, bytes));
}

void area_set(struct side *side, struct area *area, uint64_t off, uint64_t bytes, uint8_t value)
{
	put_all(side, area, off, bytes, alike(value, bytes));
}

bool area_is(struct side *side, struct area *area, uint64_t off, uint64_t bytes, uint64_t seed)
{
	return has(side, area, off, bytes, pattern(seed, bytes));
}

bool area_same(struct side *side, struct area *area, uint64_t off, uint64_t bytes, uint8_t value)
{
	return has(side, area, off, bytes, alike(value, bytes));
}

/* ---- transfers ---- */

tcpx_request side_start(struct side *side, enum tcpx_op op, const tcpx_segment *segments,
			size_t count)
{
	TCPX_OPTS(tcpx_request_opts, opts, .queue = side->queue);
	tcpx_request request;

	OK(tcpx_request_start(side->session, side->peer, op, segments, count, &opts, &request));
	return request;
}

tcpx_status side_end(struct side *side, tcpx_request request)
{
	tcpx_status status = tcpx_request_wait(side->session, request, LONG_NS, NULL);

	CHECK_MSG(status != TCPX_IN_PROGRESS, "a request does not end");
	OK(tcpx_request_release(side->session, request));
	return status;
}
