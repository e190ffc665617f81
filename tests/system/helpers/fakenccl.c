/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for NCCL between two processes of this host, for bench/nccl_p2p over the stand-in for
 * the CUDA driver. Every group, and every call outside of one, is a step that both ranks take: what
 * a rank sends lies in its half of a shared file while the other reads it.
 * FAKENCCL_FLIP=1: the first byte that a rank gets is wrong.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HALF (64u << 20)
#define STEPS 64
#define FAILED 2

struct shared {
	atomic_uint arrived, round;
	uint8_t half[2][HALF];
};

struct step {
	uintptr_t data;
	size_t bytes;
	int peer, is_send;
};

struct comm {
	int rank;
	struct shared *shared;
};

static struct step steps[STEPS];
static int nsteps, grouped;
static struct comm *user;					/* of the steps */
static int (*copy)(uintptr_t to, uintptr_t from, size_t bytes); /* cuMemcpy */

static void barrier(struct shared *s)
{
	unsigned round = atomic_load(&s->round);

	if (atomic_fetch_add(&s->arrived, 1) == 1) {
		atomic_store(&s->arrived, 0);
		atomic_fetch_add(&s->round, 1);
		return;
	}
	while (atomic_load(&s->round) == round)
		sched_yield();
}

static void flip(uint8_t *byte)
{
	if (getenv("FAKENCCL_FLIP"))
		*byte ^= 1;
}

/* A half: for each send its peer, its size and its bytes; an end of size 0. */
static int finish(void)
{
	struct shared *s = user->shared;
	uint8_t *at = s->half[user->rank];

	for (int i = 0; i < nsteps; i++) {
		uint64_t head[2] = {(uint64_t)steps[i].peer, steps[i].bytes};

		if (!steps[i].is_send)
			continue;
		if (at + steps[i].bytes + 2 * sizeof(head) > s->half[user->rank] + HALF)
			return FAILED;
		memcpy(at, head, sizeof(head));
		copy((uintptr_t)at + sizeof(head), steps[i].data, steps[i].bytes);
		at += sizeof(head) + steps[i].bytes;
	}
	memset(at, 0, 16);
	barrier(s);
	for (int rank = 0; rank < 2; rank++) {
		uint64_t head[2];

		at = s->half[rank];
		for (int i = 0; i < nsteps; i++) {
			if (steps[i].is_send || steps[i].peer != rank)
				continue;
			for (;;) { /* the next that is for us */
				memcpy(head, at, sizeof(head));
				at += sizeof(head) + head[1];
				if (!head[1])
					return FAILED;
				if (head[0] == (uint64_t)user->rank)
					break;
			}
			if (head[1] != steps[i].bytes)
				return FAILED;
			flip(at - head[1]);
			copy(steps[i].data, (uintptr_t)at - head[1], head[1]);
		}
	}
	barrier(s);
	nsteps = 0;
	return 0;
}

static int add(struct comm *comm, const void *data, size_t bytes, int peer, int is_send)
{
	if (nsteps == STEPS)
		return FAILED;
	steps[nsteps++] = (struct step){(uintptr_t)data, bytes, peer, is_send};
	user = comm;
	return grouped ? 0 : finish();
}

/* Their prototypes are NCCL's, and bench/nccl_api.h has them as pointers. */
#define API(name, params)                                                                          \
	int name params;                                                                           \
	int name params

struct id {
	char bytes[128];
};

API(ncclSend, (const void *data, size_t count, int type, int peer, struct comm *comm, void *stream))
{
	(void)type, (void)stream;
	return add(comm, data, count, peer, 1);
}

API(ncclRecv, (void *data, size_t count, int type, int peer, struct comm *comm, void *stream))
{
	(void)type, (void)stream;
	return add(comm, data, count, peer, 0);
}

API(ncclGroupStart, (void))
{
	grouped = 1;
	return 0;
}

API(ncclGroupEnd, (void))
{
	grouped = 0;
	return finish();
}

/* Sums of 32-bit words. */
API(ncclAllReduce,
    (const void *in, void *out, size_t count, int type, int op, struct comm *comm, void *stream))
{
	struct shared *s = comm->shared;
	uint32_t *sum = malloc(count * 4 + 1);

	(void)type, (void)op, (void)stream;
	if (!sum || count * 4 > HALF)
		return FAILED;
	copy((uintptr_t)s->half[comm->rank], (uintptr_t)in, count * 4);
	barrier(s);
	for (size_t i = 0; i < count; i++)
		sum[i] = ((uint32_t *)s->half[0])[i] + ((uint32_t *)s->half[1])[i];
	flip((uint8_t *)sum);
	copy((uintptr_t)out, (uintptr_t)sum, count * 4);
	free(sum);
	barrier(s);
	return 0;
}

API(ncclGetVersion, (int *out))
{
	*out = 22706;
	return 0;
}

API(ncclGetUniqueId, (struct id * out))
{
	int fd;

	snprintf(out->bytes, sizeof(out->bytes), "/dev/shm/fakenccl.XXXXXX");
	fd = mkostemp(out->bytes, O_CLOEXEC);
	return fd < 0 || ftruncate(fd, sizeof(struct shared)) || close(fd) ? FAILED : 0;
}

API(ncclCommInitRank, (struct comm * *out, int ranks, struct id id, int rank))
{
	static struct comm comm;
	const char *log = getenv("NCCL_DEBUG_FILE");
	void *cuda = dlopen(getenv("TCPX_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
	void *symbol = cuda ? dlsym(cuda, "cuMemcpy") : NULL;
	int fd = open(id.bytes, O_RDWR | O_CLOEXEC);
	FILE *file = log ? fopen(log, "we") : NULL;

	if (!symbol || fd < 0 || !file || ranks != 2)
		return FAILED;
	memcpy(&copy, &symbol, sizeof(copy));
	fprintf(file, "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n");
	fclose(file);
	comm.rank = rank;
	comm.shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (comm.shared == MAP_FAILED)
		return FAILED;
	barrier(comm.shared);
	if (!rank)
		unlink(id.bytes);
	*out = &comm;
	return 0;
}

API(ncclCommDestroy, (struct comm * comm))
{
	(void)comm;
	return 0;
}

API(ncclCommGetAsyncError, (struct comm * comm, int *out))
{
	(void)comm;
	*out = 0;
	return 0;
}

const char *ncclGetErrorString(int result);
const char *ncclGetErrorString(int result)
{
	return result ? "failed" : "ok";
}
