/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulator's own rate: a bare driver of its calls between two processes, nothing unpacked or
 * compared. What an engine above it can reach at most. Usage: emu_rate [SECONDS [host | FROM TO]]
 * FROM and TO are GPUs whose memory is sent and received; without them it is the process's, called
 * a GPU's. The settings of the emulator, NCCL_* and TCPX_CUDA_LIBRARY are the environment's.
 */
#include "emu_rig.h"

#include "sys/cuda.h"

#include <sched.h>
#include <sys/socket.h>
#include <time.h>

#define RATE_SENDS 12
#define RATE_RECEIVES 14

static int rate_type = EMU_CUDA;
static char **rate_gpus; /* FROM and TO */

/* The GPU's context is current from here on. */
static void rate_gpu(int which)
{
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *gpu;

	if (!rate_gpus)
		return;
	CHECK(sys_cuda_driver());
	CHECK_EQ(sys_cuda_get((uint32_t)atoi(rate_gpus[which]), &gpu), 0);
	CHECK_EQ(sys_cuda_push(gpu, &scope), 0);
}

static uint8_t *rate_buffer(void)
{
	cuda_ptr at;

	if (!rate_gpus)
		return aligned_alloc(EMU_PAGE, RIG_BUFFER);
	CHECK_EQ(sys_cuda_driver()->mem_alloc(&at, RIG_BUFFER), 0);
	return (uint8_t *)(uintptr_t)at;
}

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void rate_send(int fd, void *arg)
{
	struct rig_pair pair = {0};
	void *request[RATE_SENDS];
	uint64_t posted = 0, done = 0;
	double seconds = *(double *)arg, begin, cpu;
	int finished;
	char go;

	rate_gpu(0);
	rig_start();
	rig_far_read(fd, pair.handle, sizeof(pair.handle));
	while (!pair.send)
		CHECK_EQ(rig.net->connect(0, pair.handle, &pair.send, NULL), 0);
	pair.from = rate_buffer();
	if (!rate_gpus)
		rig_fill(pair.from, RIG_BUFFER, 1);
	CHECK_EQ(rig.net->reg_mr(pair.send, pair.from, RIG_BUFFER, rate_type, &pair.send_mr), 0);
	rig_far_read(fd, &go, 1);
	begin = check_seconds();
	cpu = cpu_seconds();
	while (done < posted || check_seconds() - begin < seconds) {
		if (posted - done < RATE_SENDS && check_seconds() - begin < seconds) {
			size_t at = posted % RATE_SENDS * RIG_CHUNK;

			CHECK_EQ(rig_isend(&pair, at, RIG_CHUNK, &request[posted % RATE_SENDS]), 0);
			posted++;
		}
		finished = 0;
		if (done < posted)
			CHECK_EQ(rig.net->test(request[done % RATE_SENDS], &finished, NULL), 0);
		done += (uint64_t)finished;
		if (!finished)
			sched_yield();
	}
	cpu = cpu_seconds() - cpu;
	rig_far_write(fd, &posted, sizeof(posted));
	rig_far_write(fd, &cpu, sizeof(cpu));
	rig_far_read(fd, &go, 1);
	CHECK_EQ(rig.net->close_send(pair.send), 0);
	_exit(0);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2, begin, cpu, far_cpu;
	uint64_t posted = 0, done = 0, consumed = 0, all = UINT64_MAX;
	void *request[RATE_RECEIVES];
	struct rig_pair pair;
	struct rig_far far;
	int finished;
	char go = 1;

	if (argc > 3)
		rate_gpus = argv + 2;
	else if (argc > 2)
		rate_type = EMU_HOST;
	check_alive();
	setenv("NCCL_NSOCKS_PERTHREAD", "4", 0);
	rig_far_start(&far, rate_send, &seconds);
	rate_gpu(1);
	rig_start();
	rig_listen(&pair, 0, rate_type == EMU_CUDA ? 0 : 2);
	rig_far_write(far.fd, pair.handle, sizeof(pair.handle));
	pair.devhandle = (struct emu_device_handle *)(void *)pair.store;
	while (!pair.recv)
		CHECK_EQ(rig.net->accept(pair.listen, &pair.recv, &pair.devhandle), 0);
	pair.to = rate_buffer();
	CHECK_EQ(rig.net->reg_mr(pair.recv, pair.to, RIG_BUFFER, rate_type, &pair.recv_mr), 0);
	rig_far_write(far.fd, &go, 1);
	begin = check_seconds();
	cpu = cpu_seconds();
	while (consumed < all) {
		while (posted < all && posted - consumed < RATE_RECEIVES) {
			CHECK_EQ(rig_irecv(&pair, 0, RIG_CHUNK, &request[posted % RATE_RECEIVES]),
				 0);
			posted++;
		}
		CHECK_EQ(rig.net->test(request[done % RATE_RECEIVES], &finished, NULL), 0);
		done += (uint64_t)finished;
		while (consumed < done) {
			CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1,
							 request[consumed % RATE_RECEIVES]),
				 0);
			consumed++;
		}
		if (finished)
			continue;
		if (all == UINT64_MAX && recv(far.fd, &all, sizeof(all), MSG_DONTWAIT) < 0)
			all = UINT64_MAX;
		sched_yield();
	}
	begin = check_seconds() - begin;
	cpu = cpu_seconds() - cpu;
	rig_far_read(far.fd, &far_cpu, sizeof(far_cpu));
	rig_far_write(far.fd, &go, 1);
	CHECK_EQ(rig_far_end(&far), 0);
	printf("%.2f GB/s, CPU s/GB: %.2f sending, %.2f receiving\n",
	       (double)all * RIG_CHUNK / begin / 1e9, far_cpu / ((double)all * RIG_CHUNK / 1e9),
	       cpu / ((double)all * RIG_CHUNK / 1e9));
	fflush(stdout);
	_exit(0);
}
