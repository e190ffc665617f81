/* SPDX-License-Identifier: Apache-2.0 */
/* Many comms of one process: set up side by side, used by a thread each, on pools they share. */
#include "emu_rig.h"

#include <pthread.h>
#include <sched.h>

#define MANY_THREADS 8
#define MANY_MESSAGES 60

struct one {
	pthread_t thread;
	struct rig_pair pair;
	int index;
};

static void *one_main(void *opaque)
{
	struct one *one = opaque;
	struct rig_pair *pair = &one->pair;

	rig_listen(pair, one->index % 4, one->index % 8 / 4 + one->index % 4 * 2);
	CHECK_EQ(rig_meet(pair, one->index % 4, true), 0);
	CHECK_EQ(rig.net->close_listen(pair->listen), 0);
	pair->type = EMU_CUDA;
	pair->from = aligned_alloc(EMU_PAGE, RIG_CHUNK + EMU_PAGE);
	pair->to = aligned_alloc(EMU_PAGE, RIG_CHUNK + EMU_PAGE);
	rig_fill(pair->from, RIG_CHUNK, (uint64_t)one->index);
	CHECK_EQ(rig.net->reg_mr(pair->send, pair->from, RIG_CHUNK, EMU_CUDA, &pair->send_mr), 0);
	CHECK_EQ(rig.net->reg_mr(pair->recv, pair->to, RIG_CHUNK, EMU_CUDA, &pair->recv_mr), 0);
	for (int i = 0; i < MANY_MESSAGES; i++)
		rig_message(pair, (size_t)(i * 8191 + one->index) % RIG_CHUNK);
	rig_pair_close(pair);
	return NULL;
}

static void many_threads(void *arg)
{
	static struct one all[MANY_THREADS];
	struct tcpxemu_stats stats;

	(void)arg;
	setenv("NCCL_NSOCKS_PERTHREAD", "2", 1);
	rig_start();
	for (int i = 0; i < MANY_THREADS; i++) {
		all[i].index = i;
		CHECK_EQ(pthread_create(&all[i].thread, NULL, one_main, &all[i]), 0);
	}
	for (int i = 0; i < MANY_THREADS; i++)
		CHECK_EQ(pthread_join(all[i].thread, NULL), 0);
	rig.stats(&stats);
	CHECK_EQ(stats.pages_in_use, 0);
	CHECK_EQ(stats.comms_open, 0);
	CHECK_EQ(stats.comms_made, 2 * MANY_THREADS);
	/* the first thread's first one is empty, and begins a comm */
	CHECK_EQ(stats.received_messages, MANY_THREADS * MANY_MESSAGES - 1);
	CHECK_EQ(rig.violations(NULL), 0);
}

/* With the real times no setup ends before 100 ms a socket; all of them are under way at once. */
static void many_real(void *arg)
{
	static struct rig_pair pairs[12];
	int sends = 0, receives = 0, before = 0;
	double begin = check_seconds();

	(void)arg;
	setenv("TCPXEMU_REALTIME", "1", 1);
	setenv("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", "50000", 1);
	rig_start();
	for (int i = 0; i < 12; i++)
		rig_listen(&pairs[i], 0, 0);
	while (sends < 12 || receives < 12) {
		for (int i = 0; i < 12; i++) {
			struct rig_pair *pair = &pairs[i];

			pair->devhandle = (struct emu_device_handle *)(void *)pair->store;
			if (!pair->send) {
				CHECK_EQ(rig.net->connect(0, pair->handle, &pair->send, NULL), 0);
				sends += pair->send != NULL;
			}
			if (!pair->recv) {
				CHECK_EQ(rig.net->accept(pair->listen, &pair->recv,
							 &pair->devhandle),
					 0);
				receives += pair->recv != NULL;
			}
		}
		before += check_seconds() - begin < 0.2 ? sends + receives : 0;
		sched_yield();
	}
	CHECK_EQ(before, 0);
	CHECK(check_seconds() - begin >= 0.25);
	for (int i = 0; i < 12; i++) {
		CHECK_EQ(rig.net->close_send(pairs[i].send), 0);
		CHECK_EQ(rig.net->close_recv(pairs[i].recv), 0);
		CHECK_EQ(rig.net->close_listen(pairs[i].listen), 0);
	}
}

static const struct check_case cases[] = {
	{"threads", many_threads},
	{"real-time", many_real},
};

int main(int argc, char **argv)
{
	return check_main(cases, sizeof(cases) / sizeof(*cases), argc > 1 ? argv[1] : NULL, NULL);
}
