/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory modes over the stand-in for the CUDA driver: device memory at both ends. With
 * EMU_REAL=1 in the environment over the machine's driver, as far as one GPU goes.
 */
#include "emu_rig.h"

#include "fakecuda/fakecuda.h"
#include "sys/cuda.h"

#include <sched.h>

#define MEMORY_BYTES ((size_t)1 << 20)

static struct fakecuda fake;
static const struct sys_cuda *driver;
static bool real;
static uint8_t pattern[MEMORY_BYTES];

struct memory {
	struct rig_pair pair;
	struct sys_cuda_gpu *gpu;
	struct sys_cuda_scope scope;
	struct emu_device_queue queue;
	const struct emu_meta *meta;
	cuda_ptr block[2], from, to; /* from and to lie in them, aligned to pages */
	uint8_t *pattern;
};

static void driver_start(const char *mode)
{
	real = getenv("EMU_REAL");
	if (!real) {
		setenv("TCPX_CUDA_LIBRARY", FAKECUDA, 1);
		setenv("FAKECUDA_DEVICES", "8", 1);
		setenv("FAKECUDA_DELAY_US", "5", 1);
		CHECK_EQ(fakecuda_open(FAKECUDA, &fake), 0);
	}
	setenv("TCPXEMU_MEM", mode, 1);
	setenv("TCPXEMU_FRAG", "rand:3", 0);
	setenv("TCPXEMU_POOL_BYTES", "16777216", 1);
	driver = sys_cuda_driver();
	if (real && !driver)
		SKIP("no CUDA driver");
	CHECK(driver);
	rig_start();
}

static cuda_ptr memory_block(cuda_ptr *out_block)
{
	CHECK_EQ(driver->mem_alloc(out_block, MEMORY_BYTES + EMU_PAGE), 0);
	return (*out_block + EMU_PAGE - 1) & ~(cuda_ptr)(EMU_PAGE - 1);
}

/* GPU ordinal, current on this thread and at both ends, through NIC dev. */
static void memory_open(struct memory *at, const char *mode, int dev, uint32_t ordinal)
{
	memset(at, 0, sizeof(*at));
	driver_start(mode);
	CHECK_EQ(sys_cuda_get(ordinal, &at->gpu), 0);
	CHECK_EQ(sys_cuda_push(at->gpu, &at->scope), 0);
	rig_listen(&at->pair, dev, 7); /* the context counts, not this */
	CHECK_EQ(rig_meet(&at->pair, dev, true), 0);
	CHECK_EQ(rig.net->close_listen(at->pair.listen), 0);
	at->from = memory_block(&at->block[0]);
	at->to = memory_block(&at->block[1]);
	at->pattern = pattern;
	rig_fill(at->pattern, MEMORY_BYTES, 9);
	CHECK_EQ(driver->copy(at->from, (uintptr_t)at->pattern, MEMORY_BYTES), 0);
	at->pair.from = (uint8_t *)(uintptr_t)at->from;
	at->pair.to = (uint8_t *)(uintptr_t)at->to;
	CHECK_EQ(rig.net->reg_mr(at->pair.send, at->pair.from, MEMORY_BYTES, EMU_CUDA,
				 &at->pair.send_mr),
		 0);
	CHECK_EQ(rig.net->reg_mr(at->pair.recv, at->pair.to, MEMORY_BYTES, EMU_CUDA,
				 &at->pair.recv_mr),
		 0);
	/* As a consumer reads it: once, by a copy from the device. */
	CHECK_EQ(driver->copy((uintptr_t)&at->queue, (uintptr_t)at->pair.devhandle->handle,
			      sizeof(at->queue)),
		 0);
	CHECK_EQ(at->queue.head, UINT64_MAX);
	at->meta = (const struct emu_meta *)(uintptr_t)at->queue.meta;
}

static size_t memory_unpack(struct memory *at, uint64_t receive)
{
	uint64_t count = at->meta->cnt[receive % EMU_SLOTS];
	size_t sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		struct emu_load load = at->meta->mem[receive % EMU_SLOTS][i];

		CHECK_EQ(driver->copy(at->to + load.dst, at->queue.bounce + load.src, load.len), 0);
		sum += load.len;
	}
	return sum;
}

static void memory_message(struct memory *at, size_t offset, size_t size)
{
	uint64_t receive = at->pair.receives;
	void *send, *recv;
	uint8_t *got = calloc(1, size + 1);

	CHECK_EQ(driver->copy(at->to, (uintptr_t)got, size + 1), 0);
	CHECK_EQ(rig_irecv(&at->pair, 0, size, &recv), 0);
	CHECK_EQ(rig_isend(&at->pair, offset, size, &send), 0);
	rig_wait_both(send, recv);
	CHECK_EQ(memory_unpack(at, receive), size);
	CHECK_EQ(rig.net->irecv_consumed(at->pair.recv, 1, recv), 0);
	CHECK_EQ(driver->copy((uintptr_t)got, at->to, size + 1), 0);
	CHECK(!memcmp(got, at->pattern + offset, size) && got[size] == 0);
	free(got);
}

static void memory_close(struct memory *at)
{
	struct tcpxemu_stats stats;

	rig.stats(&stats);
	CHECK_EQ(stats.pages_in_use, 0);
	CHECK_EQ(rig.net->dereg_mr(at->pair.send, at->pair.send_mr), 0);
	CHECK_EQ(rig.net->dereg_mr(at->pair.recv, at->pair.recv_mr), 0);
	CHECK_EQ(rig.net->close_send(at->pair.send), 0);
	CHECK_EQ(rig.net->close_recv(at->pair.recv), 0);
	CHECK_EQ(driver->mem_free(at->block[0]), 0);
	CHECK_EQ(driver->mem_free(at->block[1]), 0);
	sys_cuda_pop(&at->scope);
	sys_cuda_put(at->gpu);
}

static void memory_mode(const char *mode)
{
	struct fakecuda_live live;
	struct memory at;
	uint64_t state = 5;
	cuda_ctx now, mine;

	memory_open(&at, mode, getenv("EMU_REAL") ? 0 : 1, getenv("EMU_REAL") ? 0 : 3);
	CHECK_EQ(driver->ctx_current(&mine), 0);
	for (int i = 0; i < 40; i++) {
		size_t size = i % 8 ? (state = state * 2862933555777941757ull + 3) >> 45 : 0;

		memory_message(&at, state % 4096, size % RIG_CHUNK);
		CHECK(driver->ctx_current(&now) == 0 && now == mine);
	}
	memory_close(&at);
	CHECK_EQ(rig.violations(NULL), 0);
	if (real)
		return;
	fake.live(&live); /* the pool stays, as the real one; of a comm nothing does */
	CHECK_EQ(live.streams, 0);
	CHECK_EQ(live.memory, 0);
	CHECK_EQ(live.host, !strcmp(mode, "cuda-host-bounce"));
}

static void stand_in_only(void)
{
	if (getenv("EMU_REAL"))
		SKIP("of the stand-in, or of more than one GPU");
}

static void memory_cpu(void *arg)
{
	(void)arg;
	memory_mode("cpu");
}

static void memory_host(void *arg)
{
	(void)arg;
	memory_mode("cuda-host-bounce");
}

static void memory_dev(void *arg)
{
	(void)arg;
	memory_mode("cuda-dev-bounce");
}

static void memory_dev_pages(void *arg)
{
	(void)arg;
	setenv("TCPXEMU_FRAG", "page", 1);
	setenv("TCPXEMU_SHUFFLE", "0", 1); /* neighbours go by one copy */
	memory_mode("cuda-dev-bounce");
}

/* The pool cannot be touched by the CPU, nor by another GPU. */
static void memory_dev_alone(void *arg)
{
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *other;
	struct memory at;
	cuda_ptr place;

	(void)arg;
	stand_in_only();
	memory_open(&at, "cuda-dev-bounce", 0, 0);
	memory_message(&at, 0, 100000);
	CHECK_EQ(sys_cuda_get(4, &other), 0);
	CHECK_EQ(sys_cuda_push(other, &scope), 0);
	CHECK_EQ(driver->mem_alloc(&place, 4096), 0);
	CHECK(driver->copy(place, at.queue.bounce, 4096) != 0);
	sys_cuda_pop(&scope);
	sys_cuda_put(other);
	memory_close(&at);
}

/* Poisoned pages in device memory, where it is asked for. */
static void memory_dev_poison(void *arg)
{
	struct memory at;
	void *send, *recv;
	uint8_t got[70000];

	(void)arg;
	setenv("TCPXEMU_POISON", "1", 1);
	memory_open(&at, "cuda-dev-bounce", 0, 0);
	CHECK_EQ(rig_irecv(&at.pair, 0, sizeof(got), &recv), 0);
	CHECK_EQ(rig_isend(&at.pair, 0, sizeof(got), &send), 0);
	rig_wait_both(send, recv);
	CHECK_EQ(rig.net->irecv_consumed(at.pair.recv, 1, recv), 0);
	CHECK_EQ(memory_unpack(&at, 0), sizeof(got));
	CHECK_EQ(driver->copy((uintptr_t)got, at.to, sizeof(got)), 0);
	for (size_t i = 0; i < sizeof(got); i++)
		CHECK_EQ(got[i], 0xa5);
	memory_close(&at);
}

/* Streams that stand still keep no message: a NIC reads and writes memory by itself. */
static void memory_held(void *arg)
{
	struct memory at;
	void *send, *recv;

	stand_in_only();
	memory_open(&at, arg, 0, 0);
	fake.hold(1);
	CHECK_EQ(rig_irecv(&at.pair, 0, 100000, &recv), 0);
	CHECK_EQ(rig_isend(&at.pair, 0, 100000, &send), 0);
	rig_wait_both(send, recv);
	fake.hold(0);
	CHECK_EQ(memory_unpack(&at, 0), 100000);
	CHECK_EQ(rig.net->irecv_consumed(at.pair.recv, 1, recv), 0);
	memory_close(&at);
	CHECK_EQ(rig.violations(NULL), 0);
}

static void memory_held_host(void *arg)
{
	(void)arg;
	memory_held("cuda-host-bounce");
}

static void memory_held_dev(void *arg)
{
	(void)arg;
	memory_held("cuda-dev-bounce");
}

static void *close_main(void *arg)
{
	struct memory *at = arg;

	CHECK_EQ(rig.net->close_recv(at->pair.recv), 0);
	return NULL;
}

/* The close of a comm that receives frees memory of its GPU, and so waits for all that the GPU has
 * to do, also for what has nothing to do with the comm. */
static void memory_close_waits(void *arg)
{
	struct memory at;
	struct sys_cuda_scope scope;
	cuda_stream stream;
	cuda_event event;
	uint64_t frees;
	pthread_t thread;

	(void)arg;
	stand_in_only();
	memory_open(&at, "cuda-host-bounce", 0, 0);
	CHECK_EQ(rig.net->dereg_mr(at.pair.send, at.pair.send_mr), 0);
	CHECK_EQ(rig.net->dereg_mr(at.pair.recv, at.pair.recv_mr), 0);
	CHECK_EQ(driver->stream_create(&stream, CUDA_STREAM_NON_BLOCKING, 0), 0);
	CHECK_EQ(driver->event_create(&event, 0), 0);
	fake.hold_device(0, 1);
	CHECK_EQ(driver->event_record(event, stream), 0);
	frees = fake.calls("cuMemFree");
	CHECK(!pthread_create(&thread, NULL, close_main, &at));
	while (fake.calls("cuMemFree") == frees)
		sched_yield();
	CHECK_EQ(sys_cuda_push(at.gpu, &scope), 0);
	CHECK_EQ(driver->event_query(event), CUDA_ERR_NOT_READY);
	fake.hold_device(0, 0);
	CHECK(!pthread_join(thread, NULL));
	CHECK_EQ(driver->event_query(event), 0); /* it ended before the close did */
	sys_cuda_pop(&scope);
	CHECK_EQ(driver->event_destroy(event), 0);
	CHECK_EQ(driver->stream_destroy(stream), 0);
	CHECK_EQ(rig.net->close_send(at.pair.send), 0);
}

/* Memory for staging and copies while the host program captures a graph somewhere. */
static void memory_capture(void *arg)
{
	struct memory at;
	void *send, *recv;

	(void)arg;
	stand_in_only();
	memory_open(&at, "cuda-dev-bounce", 0, 0);
	CHECK_EQ(fake.capture(1), 0);
	CHECK_EQ(rig_irecv(&at.pair, 0, 100000, &recv), 0);
	CHECK_EQ(rig_isend(&at.pair, 0, 100000, &send), 0);
	rig_wait_both(send, recv);
	CHECK_EQ(fake.capture(0), 0);
	CHECK_EQ(memory_unpack(&at, 0), 100000);
	CHECK_EQ(rig.net->irecv_consumed(at.pair.recv, 1, recv), 0);
	memory_close(&at);
	CHECK_EQ(rig.violations(NULL), 0);
}

/* The current context's device, else what the thread was told. */
static void memory_current(void *arg)
{
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *gpu;

	(void)arg;
	stand_in_only();
	driver_start("cpu");
	rig.set_gpu(6);
	CHECK_EQ(rig.get_gpu(), 6);
	for (uint32_t i = 0; i < 8; i++) {
		CHECK_EQ(sys_cuda_get(i, &gpu), 0);
		CHECK_EQ(sys_cuda_push(gpu, &scope), 0);
		CHECK_EQ(rig.get_gpu(), i);
		sys_cuda_pop(&scope);
		sys_cuda_put(gpu);
	}
	CHECK_EQ(rig.get_gpu(), 6);
}

static void memory_pci(void *arg)
{
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *gpu;

	(void)arg;
	stand_in_only();
	/* Where the addresses are known they say which GPU it is, whatever its ordinal. */
	setenv("TCPXEMU_TOPO", "eth1=127.0.1.1:06:00.0:3c,3b;eth2=127.0.2.1:0c:00.0:3a", 1);
	driver_start("cpu");
	CHECK_EQ(sys_cuda_get(0, &gpu), 0);
	CHECK_EQ(sys_cuda_push(gpu, &scope), 0);
	CHECK_EQ(rig.get_gpu(), 2);
	sys_cuda_pop(&scope);
	sys_cuda_put(gpu);
}

static void memory_owner(void *arg)
{
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *other;
	struct memory at;
	void *mr;

	(void)arg;
	stand_in_only();
	memory_open(&at, "cpu", 0, 0);
	CHECK_EQ(sys_cuda_get(1, &other), 0);
	CHECK_EQ(sys_cuda_push(other, &scope), 0);
	CHECK_EQ(rig.net->reg_mr(at.pair.send, at.pair.from, 4096, EMU_CUDA, &mr), 3);
	rig_expect("mr-owner", 1);
	sys_cuda_pop(&scope);
	sys_cuda_put(other);
	memory_close(&at);
}

static void memory_fails(void *arg)
{
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *gpu;
	struct rig_pair pair;

	(void)arg;
	stand_in_only();
	driver_start("cuda-dev-bounce");
	CHECK_EQ(sys_cuda_get(0, &gpu), 0);
	CHECK_EQ(sys_cuda_push(gpu, &scope), 0);
	CHECK_EQ(fake.fail_call("cuMemcpyAsync", 1, CUDA_ERR_ILLEGAL_ADDRESS), 0);
	rig_listen(&pair, 0, 0);
	CHECK_EQ(rig_meet(&pair, 0, true), 1); /* the queue is written by a copy */
	rig_expect("cuda", 1);
	sys_cuda_pop(&scope);
	sys_cuda_put(gpu);
}

static void memory_no_driver(void *arg)
{
	(void)arg;
	setenv("TCPX_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
	setenv("TCPXEMU_MEM", "cuda-host-bounce", 1);
	rig_env();
	CHECK_EQ(rig_load(), 3);
}

static const struct check_case cases[] = {
	{"cpu", memory_cpu},
	{"host-bounce", memory_host},
	{"dev-bounce", memory_dev},
	{"dev-pages", memory_dev_pages},
	{"dev-alone", memory_dev_alone},
	{"dev-poison", memory_dev_poison},
	{"held-host", memory_held_host},
	{"held-dev", memory_held_dev},
	{"close-waits", memory_close_waits},
	{"capture", memory_capture},
	{"current", memory_current},
	{"pci", memory_pci},
	{"owner", memory_owner},
	{"fails", memory_fails},
	{"no-driver", memory_no_driver},
};

int main(int argc, char **argv)
{
	return check_main(cases, sizeof(cases) / sizeof(*cases), argc > 1 ? argv[1] : NULL, NULL);
}
