/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of collectives. Bandwidths are those of nccl-tests: the algorithm's is the size of a rank's
 * buffer over the time, the bus's that times p2p_bus_factor(). */
#include <string.h>

#include "bench_util.h"
#include "nccl_rank.h"

#define RANKS 2u

enum { IN, OUT };

/* Where of its tile a rank's data begins: a buffer's number for rank_data(). */
static unsigned data_of(unsigned rank)
{
	return 1 + rank;
}

static void buffers_open(struct rank *r, uint64_t size)
{
	for (r->buffers = 0; r->buffers < 2; r->buffers++)
		rank_must(r, r->api->mem_alloc(&r->buffer[r->buffers], size), "cuMemAlloc");
	for (uint64_t off = 0; off < size; off += RANK_TILE) {
		uint64_t part = size - off < RANK_TILE ? size - off : RANK_TILE;
		const uint8_t *data = rank_data(r, data_of((unsigned)r->rank), off);

		rank_must(r, r->api->copy(r->buffer[IN] + off, (cuda_ptr)(uintptr_t)data, part),
			  "cuMemcpy");
	}
	rank_must(r, r->api->ctx_synchronize(), "cuCtxSynchronize");
}

static void buffers_close(struct rank *r)
{
	while (r->buffers)
		rank_must(r, r->api->mem_free(r->buffer[--r->buffers]), "cuMemFree");
}

static void *at(const struct rank *r, unsigned buffer, uint64_t off)
{
	return (void *)(uintptr_t)(r->buffer[buffer] + off);
}

/* As nccl-tests does it: a part of the buffer to each rank, itself too, and one from each. */
static void all_to_all(struct rank *r, uint64_t size)
{
	uint64_t part = size / RANKS;

	rank_nccl(r, r->nccl.group_start(), "ncclGroupStart");
	for (unsigned peer = 0; peer < RANKS; peer++) {
		rank_nccl(r,
			  r->nccl.send(at(r, IN, peer * part), part, NCCL_BYTES, (int)peer, r->comm,
				       r->stream),
			  "ncclSend");
		rank_nccl(r,
			  r->nccl.recv(at(r, OUT, peer * part), part, NCCL_BYTES, (int)peer,
				       r->comm, r->stream),
			  "ncclRecv");
	}
	rank_nccl(r, r->nccl.group_end(), "ncclGroupEnd");
}

static void once(struct rank *r, uint64_t size)
{
	if (r->o->op == P2P_ALL_TO_ALL)
		all_to_all(r, size);
	else
		rank_nccl(r,
			  r->nccl.all_reduce(at(r, IN, 0), at(r, OUT, 0), size / 4, NCCL_UINT32,
					     NCCL_SUM, r->comm, r->stream),
			  "ncclAllReduce");
}

/* The word that belongs at an offset of this rank's destination. Sizes are multiples of 8. */
static uint32_t expected(const struct rank *r, uint64_t size, uint64_t off)
{
	uint64_t part = size / RANKS;
	uint32_t word, sum = 0;

	if (r->o->op == P2P_ALL_TO_ALL) {
		unsigned from = (unsigned)(off / part);

		memcpy(&word, rank_data(r, data_of(from), (unsigned)r->rank * part + off % part),
		       4);
		return word;
	}
	for (unsigned rank = 0; rank < RANKS; rank++) {
		memcpy(&word, rank_data(r, data_of(rank), off), 4);
		sum += word; /* wraps, as NCCL's does */
	}
	return sum;
}

static uint64_t check(struct rank *r, uint64_t size)
{
	uint64_t wrong = 0;

	for (uint64_t off = 0; off < size; off += RANK_TILE) {
		uint64_t part = size - off < RANK_TILE ? size - off : RANK_TILE;

		rank_must(r, r->api->copy((cuda_ptr)(uintptr_t)r->back, r->buffer[OUT] + off, part),
			  "cuMemcpy");
		for (uint64_t i = 0; i < part; i += 4) {
			uint32_t want = expected(r, size, off + i);

			wrong += memcmp(r->back + i, &want, 4) ? 4 : 0;
		}
	}
	return wrong;
}

/* Operations one behind the other in the stream, until both ranks have all. */
static int64_t repeat(struct rank *r, uint64_t size, unsigned count)
{
	int64_t begin;

	rank_must(r, r->api->set_async(r->buffer[OUT], RANK_POISON, size, r->stream), "cuMemsetD8");
	rank_drain(r);
	rank_meet(r);
	begin = now_ns();
	for (unsigned i = 0; i < count; i++)
		once(r, size);
	rank_drain(r);
	rank_meet(r);
	return now_ns() - begin;
}

static void report(struct rank *r, uint64_t size, unsigned count, int64_t ns, uint64_t wrong)
{
	const char *op = p2p_op_name(r->o->op);
	double alg = (double)size * count / (double)ns;

	if (wrong) {
		fprintf(stderr, "nccl_p2p: %llu bytes of %s are wrong: void\n",
			(unsigned long long)wrong, op);
		r->wrong = 1;
	}
	rank_setting(r, size, op);
	printf(",\"ranks\":%u,\"iters\":%u,\"reps\":%u,\"alg_gb_per_s\":%.3f,\"bus_gb_per_s\":%.3f,"
	       "\"wrong_bytes\":%llu,%s}\n",
	       RANKS, count, r->o->reps, alg, alg * p2p_bus_factor(r->o->op, RANKS),
	       (unsigned long long)wrong, rank_way(r));
	fflush(stdout);
}

void rank_collective(struct rank *r, uint64_t size)
{
	uint64_t count = r->o->volume / size;
	static int64_t took[1000];
	struct verdict other = {0}, own = {0};

	count = count < 1 ? 1 : count > RANK_MESSAGES ? RANK_MESSAGES : count;
	buffers_open(r, size);
	(void)repeat(r, size, (unsigned)count); /* warms up */
	for (unsigned rep = 0; rep < r->o->reps; rep++)
		took[rep] = repeat(r, size, (unsigned)count);
	own.wrong = check(r, size);
	rank_put(r, &own, sizeof(own));
	rank_get(r, &other, sizeof(other));
	if (r->rank == 0)
		report(r, size, (unsigned)count, percentile(took, r->o->reps, 0.5),
		       own.wrong + other.wrong);
	buffers_close(r);
}
