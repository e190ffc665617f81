/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of the NCCL yardstick: its GPU, its communicator, and how it meets the other rank. */
#include "nccl_rank.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "bench_util.h"

#define SPIN_NS 200000
#define LINE_BYTES 512

static __attribute__((noreturn)) void absent(const struct rank *r, const char *what,
					     const char *why)
{
	if (r->rank == 0)
		fprintf(stderr, "nccl_p2p: %s: %s\n", what, why);
	exit(P2P_ABSENT);
}

void rank_must(const struct rank *r, cuda_result result, const char *what)
{
	if (result == CUDA_OK)
		return;
	(void)sys_cuda_error(result, what);
	fprintf(stderr, "nccl_p2p: rank %d: %s\n", r->rank, error_last()->what);
	exit(1);
}

void rank_nccl(const struct rank *r, int result, const char *what)
{
	if (!result || result == NCCL_IN_PROGRESS)
		return;
	fprintf(stderr, "nccl_p2p: rank %d: %s: %s (%s)\n", r->rank, what,
		r->nccl.error_text(result), r->nccl.last_error ? r->nccl.last_error(r->comm) : "");
	exit(1);
}

void rank_put(const struct rank *r, const void *data, size_t bytes)
{
	if (send(r->fd, data, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
		fprintf(stderr, "nccl_p2p: rank %d: the other rank is gone\n", r->rank);
		exit(1);
	}
}

/* Spins for a while, as a caller who wants to know soon would, then sleeps. */
void rank_get(const struct rank *r, void *data, size_t bytes)
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

void rank_meet(const struct rank *r)
{
	char byte = 0;

	rank_put(r, &byte, 1);
	rank_get(r, &byte, 1);
}

/* The stream's end. Sleeps between looks when it takes long, so that the seconds of CPU that are
 * reported are NCCL's and not ours. */
void rank_drain(const struct rank *r)
{
	int64_t spin = now_ns() + SPIN_NS;
	cuda_result result;

	for (unsigned looks = 1; (result = r->api->stream_query(r->stream)) == CUDA_ERR_NOT_READY;
	     looks++) {
		int error = 0;

		if (looks % 256 == 0) {
			rank_nccl(r, r->nccl.async_error(r->comm, &error), "ncclCommGetAsyncError");
			rank_nccl(r, error, "transfer");
		}
		if (now_ns() > spin)
			nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	}
	rank_must(r, result, "cuStreamQuery");
}

const uint8_t *rank_data(const struct rank *r, unsigned b, uint64_t off)
{
	return r->tile + (off + (uint64_t)b * 65537) % RANK_TILE;
}

void rank_setting(const struct rank *r, uint64_t size, const char *mode)
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

/* Which way the channels went, from NCCL's own log; anything but the transport that NCCL_NET names,
 * or sockets without it, makes the row void. */
const char *rank_way(struct rank *r)
{
	static char text[128];
	char path[512], line[LINE_BYTES], want[64];
	const char *net = getenv("NCCL_NET");
	unsigned meant = 0, others = 0;
	FILE *f;

	snprintf(want, sizeof(want), "NET/%s", net && *net ? net : "Socket");
	snprintf(path, sizeof(path), "%s/rank%d.log", r->o->logs, r->rank);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *via = strstr(line, " via ");

		if (!via || !strstr(line, "Channel"))
			continue;
		if (!strncasecmp(via + 5, want, strlen(want)))
			meant++;
		else
			others++;
	}
	if (f)
		fclose(f);
	if (others) {
		fprintf(stderr, "nccl_p2p: %u channels did not go by %s: void\n", others, want);
		r->wrong = 1;
	}
	snprintf(text, sizeof(text), "\"channels\":%u,\"other_ways\":%u", meant, others);
	return text;
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
	rank_must(r, r->api->stream_create(&r->stream, CUDA_STREAM_NON_BLOCKING, 0),
		  "cuStreamCreate");
	rank_must(r, r->api->host_alloc((void **)&r->back, RANK_TILE, CUDA_HOST_PORTABLE),
		  "cuMemHostAlloc");
	r->tile = malloc(2 * RANK_TILE);
	if (!r->tile)
		die("malloc");
	for (size_t i = 0; i < 2 * RANK_TILE; i += 8) {
		uint64_t word = i < RANK_TILE ? next_random(&random) : 0;

		memcpy(r->tile + i, i < RANK_TILE ? (void *)&word : r->tile + i - RANK_TILE, 8);
	}
}

static void open_comm(struct rank *r)
{
	struct nccl_id id;

	rank_nccl(r, r->nccl.version(&r->version), "ncclGetVersion");
	rank_put(r, r->gpu->pci, sizeof(r->gpu->pci));
	rank_get(r, r->peer_pci, sizeof(r->peer_pci));
	if (r->rank == 0) {
		rank_nccl(r, r->nccl.unique_id(&id), "ncclGetUniqueId");
		rank_put(r, &id, sizeof(id));
	} else {
		rank_get(r, &id, sizeof(id));
	}
	rank_nccl(r, r->nccl.init_rank(&r->comm, 2, id, r->rank), "ncclCommInitRank");
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
	if (options->op == P2P_SENDRECV && strstr(options->modes, "pingpong")) {
		rank_pingpong(&r, 8);
		rank_pingpong(&r, 64);
	}
	for (unsigned i = 0; i < options->nsizes; i++) {
		if (options->op != P2P_SENDRECV)
			rank_collective(&r, options->sizes[i]);
		for (unsigned k = 0; k < 3 && options->op == P2P_SENDRECV; k++)
			if (strstr(options->modes, rows[k]))
				rank_row(&r, options->sizes[i], rows[k]);
	}
	rank_meet(&r);
	rank_nccl(&r, r.nccl.destroy(r.comm), "ncclCommDestroy");
	exit(r.wrong);
}
