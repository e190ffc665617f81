/* SPDX-License-Identifier: Apache-2.0 */
/* What the copy engines and copy kernels of one GPU reach, by piece size and by how ends are
 * learned: the ceilings of staging. Prints a table; GB are 10^9 bytes. Not part of the build:
 * nvcc -O2 -std=c++17 -o gpu_copy gpu_copy.cu -lcuda */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MUST(call)                                                                                 \
	do {                                                                                       \
		int must_rc = (int)(call);                                                         \
		if (must_rc) {                                                                     \
			fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, must_rc);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static const size_t RING = 64u << 20, TOTAL = 2048u << 20;
static char *host[2], *gpu[2];
static volatile uint32_t *flags;
static CUdeviceptr flags_gpu;
static cudaStream_t stream[4];

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void await_flag(unsigned index, uint32_t value)
{
	while (flags[index * 16] < value)
		;
}

static void copy(int out, size_t at, size_t bytes, cudaStream_t s)
{
	char *h = host[out] + at % RING, *g = gpu[out] + at % TOTAL;

	MUST(cudaMemcpyAsync(out ? h : g, out ? g : h, bytes,
			     out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, s));
}

static uint32_t stamp;

/* Batches of so many copies, a flag behind each batch, at most two batches under way. */
static double batches(int out, size_t piece, unsigned batch, unsigned streams)
{
	size_t count = TOTAL / piece / batch;
	uint32_t base = stamp;
	double begin = now();

	for (size_t i = 0; i < count; i++) {
		cudaStream_t s = stream[out * 2 + i % streams];

		if (i >= 2)
			await_flag((unsigned)(out * 2 + (i - 2) % streams),
				   base + (uint32_t)(i - 2) + 1);
		for (unsigned k = 0; k < batch; k++)
			copy(out, (i * batch + k) * piece, piece, s);
		MUST(cuStreamWriteValue32((CUstream)s,
					  flags_gpu + (CUdeviceptr)(out * 2 + i % streams) * 64,
					  base + (uint32_t)i + 1, 0));
	}
	for (unsigned k = 0; k < 4; k++)
		MUST(cudaStreamSynchronize(stream[k]));
	stamp += (uint32_t)count + 1;
	return (double)count * batch * (double)piece / (now() - begin) / 1e9;
}

static double plain(int out, size_t piece)
{
	double begin = now();

	for (size_t at = 0; at < TOTAL; at += piece)
		copy(out, at, piece, stream[out * 2]);
	MUST(cudaStreamSynchronize(stream[out * 2]));
	return (double)TOTAL / (now() - begin) / 1e9;
}

/* Both directions at once, batches with flags each. */
static void duplex(size_t piece, unsigned batch)
{
	size_t count = TOTAL / piece / batch;
	uint32_t base = stamp;
	size_t next[2] = {0, 0};
	double begin = now();

	while (next[0] < count || next[1] < count) {
		for (int out = 0; out < 2; out++) {
			size_t i = next[out];

			if (i == count || (i >= 2 && flags[out * 32] < base + (uint32_t)i - 1))
				continue;
			for (unsigned k = 0; k < batch; k++)
				copy(out, (i * batch + k) * piece, piece, stream[out * 2]);
			MUST(cuStreamWriteValue32((CUstream)stream[out * 2],
						  flags_gpu + (CUdeviceptr)out * 128,
						  base + (uint32_t)i + 1, 0));
			next[out]++;
		}
	}
	for (unsigned k = 0; k < 4; k++)
		MUST(cudaStreamSynchronize(stream[k]));
	stamp += (uint32_t)count + 1;
	printf("duplex %7zu x %2u: %6.1f GB/s each way\n", piece, batch,
	       (double)TOTAL / (now() - begin) / 1e9);
}

struct piece {
	const char *from;
	char *to;
	uint32_t bytes;
};

/* A block copies piece after piece; 16 bytes a thread. */
static __global__ void gather(const struct piece *pieces, unsigned count)
{
	for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
		const uint4 *from = (const uint4 *)pieces[i].from;
		uint4 *to = (uint4 *)pieces[i].to;

		for (uint32_t k = threadIdx.x; k < pieces[i].bytes / 16; k += blockDim.x)
			to[k] = from[k];
	}
}

/* One launch and one flag for each block of so many bytes, at most two under way. */
static double kernels(int out, size_t piece, size_t block, unsigned grid)
{
	size_t per = block / piece, count = TOTAL / block;
	struct piece *table;
	uint32_t base = stamp;
	double begin;

	MUST(cudaHostAlloc((void **)&table, per * 4 * sizeof(*table), cudaHostAllocMapped));
	begin = now();
	for (size_t i = 0; i < count; i++) {
		struct piece *part = table + i % 4 * per;

		if (i >= 2)
			await_flag((unsigned)out * 2, base + (uint32_t)(i - 2) + 1);
		for (size_t k = 0; k < per; k++) {
			char *h = host[out] + (i * block + k * piece) % RING;
			char *g = gpu[out] + (i * per + k) * 7919 % (TOTAL / piece) * piece;

			part[k] = (struct piece){out ? g : h, out ? h : g, (uint32_t)piece};
		}
		gather<<<grid, 512, 0, stream[out * 2]>>>(part, (unsigned)per);
		MUST(cuStreamWriteValue32((CUstream)stream[out * 2],
					  flags_gpu + (CUdeviceptr)out * 128,
					  base + (uint32_t)i + 1, 0));
	}
	MUST(cudaStreamSynchronize(stream[out * 2]));
	stamp += (uint32_t)count + 1;
	double rate = (double)TOTAL / (now() - begin) / 1e9;
	MUST(cudaFreeHost(table));
	return rate;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Median time from the call to the flag of one small copy. */
static void latency(int out, size_t bytes, int kernel)
{
	static double sample[2000];
	struct piece *one;

	MUST(cudaHostAlloc((void **)&one, sizeof(*one), cudaHostAllocMapped));
	*one = (struct piece){out ? gpu[out] : host[out], out ? host[out] : gpu[out],
			      (uint32_t)bytes};
	for (unsigned i = 0; i < 2000; i++) {
		double begin = now();

		if (kernel)
			gather<<<1, 512, 0, stream[out * 2]>>>(one, 1);
		else
			copy(out, 0, bytes, stream[out * 2]);
		MUST(cuStreamWriteValue32((CUstream)stream[out * 2],
					  flags_gpu + (CUdeviceptr)out * 128, ++stamp, 0));
		await_flag((unsigned)out * 2, stamp);
		sample[i] = now() - begin;
	}
	qsort(sample, 2000, sizeof(*sample), by_value);
	printf("one %s of %6zu bytes by %s: %5.1f us (p99 %5.1f)\n", out ? "D2H" : "H2D", bytes,
	       kernel ? "kernel" : "engine", sample[1000] * 1e6, sample[1980] * 1e6);
	MUST(cudaFreeHost(one));
}

/* Holds its SM, whole, until told. */
static __global__ void hold(volatile uint32_t *begun, const volatile uint32_t *stop)
{
	if (threadIdx.x == 0) {
		atomicAdd_system((uint32_t *)begun, 1);
		while (!*stop)
			__nanosleep(20000);
	}
	__syncthreads();
}

/* Median time of so many copies in a row and one flag, with what another stream runs meanwhile. */
static void beside(int out, size_t piece, unsigned batch)
{
	static double sample[25];

	for (double &one : sample) {
		double begin = now();

		for (unsigned k = 0; k < batch; k++)
			copy(out, k * piece, piece, stream[out * 2]);
		MUST(cuStreamWriteValue32((CUstream)stream[out * 2],
					  flags_gpu + (CUdeviceptr)out * 128, ++stamp, 0));
		await_flag((unsigned)out * 2, stamp);
		one = now() - begin;
	}
	qsort(sample, 25, sizeof(*sample), by_value);
	printf("  %s %7zu x %2u, a flag: %8.1f us\n", out ? "D2H" : "H2D", piece, batch,
	       sample[12] * 1e6);
}

/* Copies alone, and beside a kernel that leaves no room on any SM. */
static void full_gpu(void)
{
	static const unsigned begun = 128, stop = 192; /* words of flags */
	int sms, room;

	MUST(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
	MUST(cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
	MUST(cudaFuncSetAttribute(hold, cudaFuncAttributeMaxDynamicSharedMemorySize, room));
	for (int full = 0; full < 2; full++) {
		puts(full ? "every SM held by another stream:" : "nothing beside:");
		if (full) {
			hold<<<sms, 512, room, stream[1]>>>((uint32_t *)flags_gpu + begun,
							    (uint32_t *)flags_gpu + stop);
			while (flags[begun] < (uint32_t)sms)
				;
		}
		for (int out = 0; out < 2; out++) {
			beside(out, 4096, 1);
			beside(out, 4096, 32);
			beside(out, 65536, 32);
			beside(out, 4 << 20, 1);
		}
	}
	flags[stop] = 1;
	MUST(cudaDeviceSynchronize());
}

int main(void)
{
	static const size_t small[] = {4096, 65536}, blocks[] = {1 << 20, 4 << 20};
	static const size_t tiny[] = {16, 4096, 65536};
	static const size_t sizes[] = {64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20};

	MUST(cudaSetDevice(0));
	for (int i = 0; i < 2; i++) {
		MUST(cudaHostAlloc((void **)&host[i], RING, cudaHostAllocPortable));
		MUST(cudaMalloc((void **)&gpu[i], TOTAL));
		memset(host[i], 1, RING);
	}
	MUST(cudaHostAlloc((void **)&flags, 4096, cudaHostAllocMapped));
	memset((void *)flags, 0, 4096);
	MUST(cudaHostGetDevicePointer((void **)&flags_gpu, (void *)flags, 0));
	for (int i = 0; i < 4; i++)
		MUST(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
	for (int out = 0; out < 2; out++) {
		(void)plain(out, 1 << 20);
		for (size_t piece : sizes) {
			printf("%s %7zu: no flags %5.1f | a flag each %5.1f, on two streams %5.1f "
			       "| "
			       "4 a flag %5.1f | 8 %5.1f | 16 %5.1f\n",
			       out ? "D2H" : "H2D", piece, plain(out, piece),
			       batches(out, piece, 1, 1), batches(out, piece, 1, 2),
			       batches(out, piece, 4, 1), batches(out, piece, 8, 1),
			       batches(out, piece, 16, 1));
		}
		for (size_t piece : small)
			for (size_t block : blocks)
				printf("%s kernel, pieces of %5zu, blocks of %4zu KiB: 8 CTAs "
				       "%5.1f, 16: "
				       "%5.1f, 32: %5.1f, 64: %5.1f\n",
				       out ? "D2H" : "H2D", piece, block >> 10,
				       kernels(out, piece, block, 8),
				       kernels(out, piece, block, 16),
				       kernels(out, piece, block, 32),
				       kernels(out, piece, block, 64));
		for (size_t bytes : tiny)
			for (int kernel = 0; kernel < 2; kernel++)
				latency(out, bytes, kernel);
	}
	duplex(512 << 10, 8);
	duplex(4 << 20, 1);
	full_gpu();
	return 0;
}
