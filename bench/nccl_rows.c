/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of send and recv. The clock stops when the receiver has the bytes: it waits for its stream
 * and answers over a socket of its own, then the sender looks at the time. */
#include <string.h>

#include "bench_util.h"
#include "nccl_rank.h"

static void buffers_free(struct rank *r)
{
	for (unsigned b = 0; b < r->buffers; b++)
		rank_must(r, r->api->mem_free(r->buffer[b]), "cuMemFree");
	r->buffers = 0;
}

/* As many as the window has, or as the GPU's memory allows. */
static void buffers_make(struct rank *r, uint64_t size)
{
	uint64_t most = r->gpu->bytes / 4 / size;

	while (r->buffers < r->o->window && (!r->buffers || r->buffers < most)) {
		unsigned b = r->buffers++;

		rank_must(r, r->api->mem_alloc(&r->buffer[b], size), "cuMemAlloc");
		for (uint64_t off = 0; r->rank == 0 && off < size; off += RANK_TILE) {
			uint64_t part = size - off < RANK_TILE ? size - off : RANK_TILE;

			rank_must(r,
				  r->api->copy(r->buffer[b] + off,
					       (cuda_ptr)(uintptr_t)rank_data(r, b, off), part),
				  "cuMemcpy");
		}
	}
	rank_must(r, r->api->ctx_synchronize(), "cuCtxSynchronize");
}

static void buffers_poison(struct rank *r, uint64_t size)
{
	for (unsigned b = 0; b < r->buffers; b++)
		rank_must(r, r->api->set_async(r->buffer[b], RANK_POISON, size, r->stream),
			  "cuMemsetD8");
	rank_must(r, r->api->stream_synchronize(r->stream), "cuStreamSynchronize");
}

static uint64_t buffers_check(struct rank *r, uint64_t size)
{
	uint64_t wrong = 0;

	for (unsigned b = 0; b < r->buffers; b++)
		for (uint64_t off = 0; off < size; off += RANK_TILE) {
			uint64_t part = size - off < RANK_TILE ? size - off : RANK_TILE;
			const uint8_t *want = rank_data(r, b, off);

			rank_must(r,
				  r->api->copy((cuda_ptr)(uintptr_t)r->back, r->buffer[b] + off,
					       part),
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
		rank_nccl(r, r->nccl.send(data, size, NCCL_BYTES, !r->rank, r->comm, r->stream),
			  "ncclSend");
	else
		rank_nccl(r, r->nccl.recv(data, size, NCCL_BYTES, !r->rank, r->comm, r->stream),
			  "ncclRecv");
}

/* Messages first .. first + count - 1 from rank 0 to rank 1, and the word that they are there. */
static void deliver(struct rank *r, uint64_t size, unsigned count, int grouped)
{
	char byte = 0;

	for (unsigned i = 0; i < count; i++) {
		if (grouped && i % r->o->window == 0)
			rank_nccl(r, r->nccl.group_start(), "ncclGroupStart");
		post(r, i % r->buffers, size, r->rank == 0);
		if (grouped && (i % r->o->window == r->o->window - 1 || i == count - 1))
			rank_nccl(r, r->nccl.group_end(), "ncclGroupEnd");
	}
	if (r->rank == 1) {
		rank_drain(r);
		rank_put(r, &byte, 1);
	} else {
		rank_get(r, &byte, 1);
	}
}

/* A size in one mode. seconds: of each repetition, rank 0's clock. */
void rank_row(struct rank *r, uint64_t size, const char *mode)
{
	int grouped = !strcmp(mode, "grouped"), single = !strcmp(mode, "single");
	uint64_t count = r->o->volume / size;
	struct verdict verdict = {0};
	static int64_t took[1000];
	double cpu = 0, gb;

	count = count < r->o->window ? r->o->window : count > RANK_MESSAGES ? RANK_MESSAGES : count;
	count = single && count > 64 ? 64 : count;
	buffers_make(r, size);
	for (unsigned rep = 0; rep <= r->o->reps; rep++) { /* the first warms up */
		double cpu_begin;
		int64_t begin;

		if (r->rank == 1)
			buffers_poison(r, size);
		rank_meet(r);
		cpu_begin = cpu_seconds();
		begin = now_ns();
		for (uint64_t i = 0; i < (single ? count : 1); i++)
			deliver(r, size, single ? 1 : (unsigned)count, grouped);
		if (rep) {
			took[rep - 1] = now_ns() - begin;
			cpu += cpu_seconds() - cpu_begin;
		}
		rank_drain(r);
	}
	/* one at a time all go through the first buffer */
	if (single)
		for (unsigned b = r->buffers; b > 1; b--, r->buffers--)
			rank_must(r, r->api->mem_free(r->buffer[b - 1]), "cuMemFree");
	if (r->rank == 1) {
		verdict = (struct verdict){cpu, buffers_check(r, size)};
		rank_put(r, &verdict, sizeof(verdict));
		buffers_free(r);
		return;
	}
	rank_get(r, &verdict, sizeof(verdict));
	if (verdict.wrong) {
		fprintf(stderr, "nccl_p2p: %llu bytes arrived wrong: void\n",
			(unsigned long long)verdict.wrong);
		r->wrong = 1;
	}
	gb = (double)count * (double)size / 1e9;
	rank_setting(r, size, mode);
	printf(",\"messages\":%u,\"window\":%u,\"reps\":%u,\"gb_per_s\":%.3f,\"min\":%.3f,"
	       "\"max\":%.3f,\"cpu_s_per_gb\":%.4f,\"wrong_bytes\":%llu,%s}\n",
	       (unsigned)count, single ? 1 : r->o->window, r->o->reps,
	       gb * 1e9 / (double)percentile(took, r->o->reps, 0.5),
	       gb * 1e9 / (double)percentile(took, r->o->reps, 1.0),
	       gb * 1e9 / (double)percentile(took, r->o->reps, 0.0),
	       (cpu + verdict.cpu) / (gb * r->o->reps), (unsigned long long)verdict.wrong,
	       rank_way(r));
	fflush(stdout);
	buffers_free(r);
}

void rank_pingpong(struct rank *r, uint64_t size)
{
	int64_t *took = calloc(r->o->trips, sizeof(*took));

	if (!took)
		die("calloc");
	buffers_make(r, size);
	rank_meet(r);
	for (unsigned i = 0; i < r->o->trips + 100; i++) {
		int64_t begin = now_ns();

		post(r, 0, size, r->rank == 0);
		post(r, 0, size, r->rank == 1);
		rank_drain(r);
		if (i >= 100)
			took[i - 100] = now_ns() - begin;
	}
	if (r->rank == 0) {
		rank_setting(r, size, "pingpong");
		printf(",\"trips\":%u,\"rtt_us_p50\":%.2f,\"rtt_us_p99\":%.2f,%s}\n", r->o->trips,
		       (double)percentile(took, r->o->trips, 0.5) / 1e3,
		       (double)percentile(took, r->o->trips, 0.99) / 1e3, rank_way(r));
		fflush(stdout);
	}
	buffers_free(r);
	free(took);
}
