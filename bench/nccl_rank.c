/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of the NCCL yardstick. The clock stops when the receiver has the bytes: it waits for its
 * stream and answers over a socket of its own, then the sender looks at the time. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "bench_util.h"
#include "nccl_api.h"
#include "nccl_p2p.h"
#include "sys/cuda.h"

#define TILE (16u << 20) /* bytes of test data before they come again */
#define MESSAGES 512u	 /* of a repetition, at most */
#define SPIN_NS 200000
#define POISON 0xdb
#define LINE_BYTES 512

struct rank {
	const struct p2p_options *o;
	int rank, fd;
	const struct sys_cuda *api;
	struct sys_cuda_gpu *gpu;
	struct sys_cuda_scope scope;
	struct nccl nccl;
	nccl_comm comm;
	int version;
	cuda_stream stream;
	cuda_ptr buffer[64]; /* message i lies in buffer i % buffers */
	unsigned buffers;
	uint8_t *tile, *back; /* twice TILE; TILE of pinned memory */
	char peer_pci[16];
	int wrong; /* rank 0: a row is void, the exit status says so */
};

/* What rank 1 tells rank 0 behind a row. */
struct verdict {
	double cpu;
	uint64_t wrong;
};

static __attribute__((noreturn)) void absent(const struct rank *r, const char *what,
					     const char *why)
{
	if (r->rank == 0)
		fprintf(stderr, "nccl_p2p: %s: %s\n", what, why);
	exit(P2P_ABSENT);
}

static void must(const struct rank *r, cuda_result result, const char *what)
{
	if (result == CUDA_OK)
		return;
	(void)sys_cuda_error(result, what);
	fprintf(stderr, "nccl_p2p: rank %d: %s\n", r->rank, error_last()->what);
	exit(1);
}

static void nccl_must(const struct rank *r, int result, const char *what)
{
	if (!result || result == NCCL_IN_PROGRESS)
		return;
	fprintf(stderr, "nccl_p2p: rank %d: %s: %s (%s)\n", r->rank, what,
		r->nccl.error_text(result), r->nccl.last_error ? r->nccl.last_error(r->comm) : "");
	exit(1);
}

static void put(const struct rank *r, const void *data, size_t bytes)
{
	if (send(r->fd, data, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
		fprintf(stderr, "nccl_p2p: rank %d: the other rank is gone\n", r->rank);
		exit(1);
	}
}

/* Spins for a while, as a caller who wants to know soon would, then sleeps. */
static void get(const struct rank *r, void *data, size_t bytes)
{
	int64_t until = now_ns() + SPIN_NS;
	ssize_t n;

	do
		n = recv(r->fd, data, bytes, MSG_DONTWAIT);
	while (n < 0 && errno == EAGAIN && now_ns() < until);
	if (n < 0 && errno == EAGAIN)
		n = recv(r->fd, data, bytes, MSG_WAITALL);
	if (n != (ssize_t)bytes) {
		fprintf(stderr, "nccl_p2p: rank %d: the other rank is gone\n", r->rank);
		exit(1);
	}
}

static void meet(const struct rank *r)
{
	char byte = 0;

	put(r, &byte, 1);
	get(r, &byte, 1);
}

/* The stream's end. Sleeps between looks when it takes long, so that the seconds of CPU that are
 * reported are NCCL's and not ours. */
static void drain(const struct rank *r)
{
	int64_t spin = now_ns() + SPIN_NS;
	cuda_result result;

	for (unsigned looks = 1; (result = r->api->stream_query(r->stream)) == CUDA_ERR_NOT_READY;
	     looks++) {
		int error = 0;

		if (looks % 256 == 0) {
			nccl_must(r, r->nccl.async_error(r->comm, &error), "ncclCommGetAsyncError");
			nccl_must(r, error, "transfer");
		}
		if (now_ns() > spin)
			nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	}
	must(r, result, "cuStreamQuery");
}

/* Test data of buffer b at an offset: another start in the tile for each buffer. */
static const uint8_t *data_at(const struct rank *r, unsigned b, uint64_t off)
{
	return r->tile + (off + (uint64_t)b * 65537) % TILE;
}

static void buffers_free(struct rank *r)
{
	for (unsigned b = 0; b < r->buffers; b++)
		must(r, r->api->mem_free(r->buffer[b]), "cuMemFree");
	r->buffers = 0;
}

/* As many as the window has, or as the GPU's memory allows. */
static void buffers_make(struct rank *r, uint64_t size)
{
	uint64_t most = r->gpu->bytes / 4 / size;

	while (r->buffers < r->o->window && (!r->buffers || r->buffers < most)) {
		unsigned b = r->buffers++;

		must(r, r->api->mem_alloc(&r->buffer[b], size), "cuMemAlloc");
		for (uint64_t off = 0; r->rank == 0 && off < size; off += TILE) {
			uint64_t part = size - off < TILE ? size - off : TILE;

			must(r,
			     r->api->copy(r->buffer[b] + off,
					  (cuda_ptr)(uintptr_t)data_at(r, b, off), part),
			     "cuMemcpy");
		}
	}
	must(r, r->api->ctx_synchronize(), "cuCtxSynchronize");
}

static void buffers_poison(struct rank *r, uint64_t size)
{
	for (unsigned b = 0; b < r->buffers; b++)
		must(r, r->api->set_async(r->buffer[b], POISON, size, r->stream), "cuMemsetD8");
	must(r, r->api->stream_synchronize(r->stream), "cuStreamSynchronize");
}

static uint64_t buffers_check(struct rank *r, uint64_t size)
{
	uint64_t wrong = 0;

	for (unsigned b = 0; b < r->buffers; b++)
		for (uint64_t off = 0; off < size; off += TILE) {
			uint64_t part = size - off < TILE ? size - off : TILE;
			const uint8_t *want = data_at(r, b, off);

			must(r,
			     r->api->copy((cuda_ptr)(uintptr_t)r->back, r->buffer[b] + off, part),
			     "cuMemcpy");
			if (!memcmp(r->back, want, part))
				continue;
			for (uint64_t i = 0; i < part; i++)
				wrong += r->back[i] != want[i];
		}
	return wrong;
}

static void post(struct rank *r, unsigned b, uint64_t size, int sends)
{
	void *data = (void *)(uintptr_t)r->buffer[b];

	if (sends)
		nccl_must(r, r->nccl.send(data, size, NCCL_BYTES, !r->rank, r->comm, r->stream),
			  "ncclSend");
	else
		nccl_must(r, r->nccl.recv(data, size, NCCL_BYTES, !r->rank, r->comm, r->stream),
			  "ncclRecv");
}

/* Messages first .. first + count - 1 from rank 0 to rank 1, and the word that they are there. */
static void deliver(struct rank *r, uint64_t size, unsigned count, int grouped)
{
	char byte = 0;

	for (unsigned i = 0; i < count; i++) {
		if (grouped && i % r->o->window == 0)
			nccl_must(r, r->nccl.group_start(), "ncclGroupStart");
		post(r, i % r->buffers, size, r->rank == 0);
		if (grouped && (i % r->o->window == r->o->window - 1 || i == count - 1))
			nccl_must(r, r->nccl.group_end(), "ncclGroupEnd");
	}
	if (r->rank == 1) {
		drain(r);
		put(r, &byte, 1);
	} else {
		get(r, &byte, 1);
	}
}

static void print_setting(const struct rank *r, uint64_t size, const char *mode)
{
	static const char *const names[] = {"NCCL_NCHANNELS_PER_NET_PEER", "NCCL_MIN_P2P_NCHANNELS",
					    "NCCL_SOCKET_NTHREADS",	   "NCCL_NSOCKS_PERTHREAD",
					    "NCCL_P2P_NET_CHUNKSIZE",	   "NCCL_BUFFSIZE"};
	const char *comma = "";

	printf("{\"bench\":\"nccl_p2p\",\"label\":\"%s\",\"nccl\":%d,\"gpus\":[\"%s\",\"%s\"],"
	       "\"env\":{",
	       r->o->label, r->version, r->gpu->pci, r->peer_pci);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (getenv(names[i])) {
			printf("%s\"%s\":\"%s\"", comma, names[i], getenv(names[i]));
			comma = ",";
		}
	printf("},\"mode\":\"%s\",\"bytes\":%llu", mode, (unsigned long long)size);
}

/* Which way the channels went, from NCCL's own log; anything but sockets makes the row void. */
static const char *way(struct rank *r)
{
	static char text[128];
	char path[512], line[LINE_BYTES];
	unsigned sockets = 0, others = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/rank%d.log", r->o->logs, r->rank);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *via = strstr(line, " via ");

		if (!via || !strstr(line, "Channel"))
			continue;
		if (!strncmp(via + 5, "NET/Socket", 10))
			sockets++;
		else
			others++;
	}
	if (f)
		fclose(f);
	if (others) {
		fprintf(stderr, "nccl_p2p: %u channels did not go by sockets: void\n", others);
		r->wrong = 1;
	}
	snprintf(text, sizeof(text), "\"channels\":%u,\"other_ways\":%u", sockets, others);
	return text;
}

/* A size in one mode. seconds: of each repetition, rank 0's clock. */
static void row(struct rank *r, uint64_t size, const char *mode)
{
	int grouped = !strcmp(mode, "grouped"), single = !strcmp(mode, "single");
	uint64_t count = r->o->volume / size;
	struct verdict verdict = {0};
	static int64_t took[1000];
	double cpu = 0, gb;

	count = count < r->o->window ? r->o->window : count > MESSAGES ? MESSAGES : count;
	count = single && count > 64 ? 64 : count;
	buffers_make(r, size);
	for (unsigned rep = 0; rep <= r->o->reps; rep++) { /* the first warms up */
		double cpu_begin;
		int64_t begin;

		if (r->rank == 1)
			buffers_poison(r, size);
		meet(r);
		cpu_begin = cpu_seconds();
		begin = now_ns();
		for (uint64_t i = 0; i < (single ? count : 1); i++)
			deliver(r, size, single ? 1 : (unsigned)count, grouped);
		if (rep) {
			took[rep - 1] = now_ns() - begin;
			cpu += cpu_seconds() - cpu_begin;
		}
		drain(r);
	}
	/* one at a time all go through the first buffer */
	if (single)
		for (unsigned b = r->buffers; b > 1; b--, r->buffers--)
			must(r, r->api->mem_free(r->buffer[b - 1]), "cuMemFree");
	if (r->rank == 1) {
		verdict = (struct verdict){cpu, buffers_check(r, size)};
		put(r, &verdict, sizeof(verdict));
		buffers_free(r);
		return;
	}
	get(r, &verdict, sizeof(verdict));
	if (verdict.wrong) {
		fprintf(stderr, "nccl_p2p: %llu bytes arrived wrong: void\n",
			(unsigned long long)verdict.wrong);
		r->wrong = 1;
	}
	gb = (double)count * (double)size / 1e9;
	print_setting(r, size, mode);
	printf(",\"messages\":%u,\"window\":%u,\"reps\":%u,\"gb_per_s\":%.3f,\"min\":%.3f,"
	       "\"max\":%.3f,\"cpu_s_per_gb\":%.4f,\"wrong_bytes\":%llu,%s}\n",
	       (unsigned)count, single ? 1 : r->o->window, r->o->reps,
	       gb * 1e9 / (double)percentile(took, r->o->reps, 0.5),
	       gb * 1e9 / (double)percentile(took, r->o->reps, 1.0),
	       gb * 1e9 / (double)percentile(took, r->o->reps, 0.0),
	       (cpu + verdict.cpu) / (gb * r->o->reps), (unsigned long long)verdict.wrong, way(r));
	fflush(stdout);
	buffers_free(r);
}

static void pingpong(struct rank *r, uint64_t size)
{
	int64_t *took = calloc(r->o->trips, sizeof(*took));

	if (!took)
		die("calloc");
	buffers_make(r, size);
	meet(r);
	for (unsigned i = 0; i < r->o->trips + 100; i++) {
		int64_t begin = now_ns();

		post(r, 0, size, r->rank == 0);
		post(r, 0, size, r->rank == 1);
		drain(r);
		if (i >= 100)
			took[i - 100] = now_ns() - begin;
	}
	if (r->rank == 0) {
		print_setting(r, size, "pingpong");
		printf(",\"trips\":%u,\"rtt_us_p50\":%.2f,\"rtt_us_p99\":%.2f,%s}\n", r->o->trips,
		       (double)percentile(took, r->o->trips, 0.5) / 1e3,
		       (double)percentile(took, r->o->trips, 0.99) / 1e3, way(r));
		fflush(stdout);
	}
	buffers_free(r);
	free(took);
}

static void open_gpu(struct rank *r)
{
	uint64_t random = 88172645463325252u;

	r->api = sys_cuda_driver();
	if (!r->api)
		absent(r, "no GPU", error_last()->what);
	if (r->api->devices < 2 && !r->o->gpus_given)
		absent(r, "one GPU only",
		       "NCCL refuses two ranks on one GPU, and two that share it measure nothing; "
		       "--gpus 0,0 with distinct NCCL_HOSTID (set here) may run for function's "
		       "sake");
	if (sys_cuda_get(r->o->gpu[r->rank], &r->gpu) != TCPX_OK ||
	    sys_cuda_push(r->gpu, &r->scope) != TCPX_OK) {
		fprintf(stderr, "nccl_p2p: rank %d: %s\n", r->rank, error_last()->what);
		exit(1);
	}
	must(r, r->api->stream_create(&r->stream, CUDA_STREAM_NON_BLOCKING, 0), "cuStreamCreate");
	must(r, r->api->host_alloc((void **)&r->back, TILE, CUDA_HOST_PORTABLE), "cuMemHostAlloc");
	r->tile = malloc(2 * TILE);
	if (!r->tile)
		die("malloc");
	for (size_t i = 0; i < 2 * TILE; i += 8) {
		uint64_t word = i < TILE ? next_random(&random) : 0;

		memcpy(r->tile + i, i < TILE ? (void *)&word : r->tile + i - TILE, 8);
	}
}

static void open_comm(struct rank *r)
{
	struct nccl_id id;

	nccl_must(r, r->nccl.version(&r->version), "ncclGetVersion");
	put(r, r->gpu->pci, sizeof(r->gpu->pci));
	get(r, r->peer_pci, sizeof(r->peer_pci));
	if (r->rank == 0) {
		nccl_must(r, r->nccl.unique_id(&id), "ncclGetUniqueId");
		put(r, &id, sizeof(id));
	} else {
		get(r, &id, sizeof(id));
	}
	nccl_must(r, r->nccl.init_rank(&r->comm, 2, id, r->rank), "ncclCommInitRank");
}

void p2p_rank(const struct p2p_options *options, int rank, int fd)
{
	static const char *const rows[] = {"separate", "grouped", "single"};
	static struct rank r;
	const char *missing;

	r = (struct rank){.o = options, .rank = rank, .fd = fd};
	missing = nccl_open(options->nccl, &r.nccl);
	if (missing)
		absent(&r, "no NCCL (--nccl PATH names one)", missing);
	open_gpu(&r);
	open_comm(&r);
	if (strstr(options->modes, "pingpong")) {
		pingpong(&r, 8);
		pingpong(&r, 64);
	}
	for (unsigned i = 0; i < options->nsizes; i++)
		for (unsigned k = 0; k < 3; k++)
			if (strstr(options->modes, rows[k]))
				row(&r, options->sizes[i], rows[k]);
	meet(&r);
	nccl_must(&r, r.nccl.destroy(r.comm), "ncclCommDestroy");
	exit(r.wrong);
}
