/* SPDX-License-Identifier: Apache-2.0 */
/* Injected faults: each does what its name says, to the comm and the side that it names. */
#include "emu_rig.h"

#include <sched.h>
#include <time.h>

static void open_faulty(struct rig_pair *pair, const char *fault)
{
	setenv("TCPXEMU_FAULT", fault, 1);
	rig_start();
	rig_pair_open(pair, 0, 0, EMU_CUDA);
}

static void post_both(struct rig_pair *pair, size_t size, void **send, void **recv)
{
	CHECK_EQ(rig_irecv(pair, 0, size, recv), 0);
	CHECK_EQ(rig_isend(pair, 0, size, send), 0);
}

static void fault_grammar(void *arg)
{
	(void)arg;
	setenv("TCPXEMU_FAULT", "late:ms", 1);
	rig_env();
	CHECK_EQ(rig_load(), 3);
	setenv("TCPXEMU_FAULT", "nonsense", 1);
	CHECK_EQ(rig.net->init(rig_log), 3);
	setenv("TCPXEMU_FAULT", "late:nth=2:ms=1:side=recv:comm=1:sock=0,one-byte", 1);
	CHECK_EQ(rig.net->init(rig_log), 0);
}

static void fault_accept(void *arg)
{
	struct rig_pair pair;

	(void)arg;
	setenv("TCPXEMU_FAULT", "accept-rc", 1);
	rig_start();
	rig_listen(&pair, 0, 0);
	CHECK_EQ(rig_meet(&pair, 0, true), 3);
}

static void fault_connect_never(void *arg)
{
	struct rig_pair pair;
	void *comm;

	(void)arg;
	setenv("TCPXEMU_FAULT", "connect-never", 1);
	rig_start();
	rig_listen(&pair, 0, 0);
	for (int i = 0; i < 1000; i++) {
		CHECK_EQ(rig.net->connect(0, pair.handle, &comm, NULL), 0);
		CHECK(!comm);
	}
	rig.net->close_listen(pair.listen);
}

static void fault_nulls(void *arg)
{
	struct rig_pair pair;
	int calls = 0;
	void *comm = NULL;

	(void)arg;
	setenv("TCPXEMU_FAULT", "nulls:nth=5000:side=send", 1);
	rig_start();
	rig_listen(&pair, 0, 0);
	pair.devhandle = (struct emu_device_handle *)(void *)pair.store;
	while (!comm) {
		CHECK_EQ(rig.net->connect(0, pair.handle, &comm, NULL), 0);
		if (!pair.recv)
			CHECK_EQ(rig.net->accept(pair.listen, &pair.recv, &pair.devhandle), 0);
		calls++;
	}
	CHECK(calls > 5000);
}

static void fault_wrong_nic(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int rc = 0;

	(void)arg;
	open_faulty(&pair, "wrong-nic:comm=0");
	post_both(&pair, 4096, &send, &recv);
	rig_wait(send);
	while (!rig_poll(recv, 1, &rc) && !rc)
		;
	CHECK_EQ(rc, 3);
	rig_expect("no-cmsg", 1);
}

/* The second chunk comes late; nothing overtakes it on its socket. */
static void fault_late(void *arg)
{
	double begin, waited = 0;
	struct rig_pair pair;

	(void)arg;
	open_faulty(&pair, "late:nth=2:ms=80:side=recv");
	for (int i = 0; i < 3; i++) {
		begin = check_seconds();
		rig_message(&pair, 20000);
		waited += i == 1 ? check_seconds() - begin : 0;
	}
	CHECK(waited >= 0.08);
	rig_pair_close(&pair);
	CHECK_EQ(rig.violations(NULL), 0);
}

static void fault_one_byte(void *arg)
{
	struct tcpxemu_stats stats;
	struct rig_pair pair;

	(void)arg;
	open_faulty(&pair, "one-byte");
	rig_message(&pair, 9000);
	CHECK_EQ(rig_count(&pair, 0), 3); /* a fragment is a packet, not a read */
	rig.stats(&stats);
	CHECK_EQ(stats.reads, 9000);
}

static void fault_frags(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int rc = 0;

	(void)arg;
	open_faulty(&pair, "frags:bytes=10");
	rig_message(&pair, 20000);
	CHECK_EQ(rig_count(&pair, 0), 2000);
	post_both(&pair, 30000, &send, &recv);
	rig_wait(send);
	while (!rig_poll(recv, 1, &rc) && !rc)
		;
	CHECK_EQ(rc, 3);
	rig_expect("chunk-fragments", 1);
}

/* A pool too small for what is out: it goes on when pages come back, without an error. */
static void fault_pool(void *arg)
{
	struct tcpxemu_stats stats;
	struct rig_pair pair;
	void *send[2], *recv[2];
	int rc;

	(void)arg;
	open_faulty(&pair, "pool:pages=20");
	post_both(&pair, 65536, &send[0], &recv[0]); /* 16 of 20 */
	rig_wait_both(send[0], recv[0]);
	post_both(&pair, 65536, &send[1], &recv[1]);
	rig_wait(send[1]);
	CHECK(!rig_poll(recv[1], 1000, &rc) && rc == 0);
	do {
		rig_poll(recv[1], 1, &rc);
		rig.stats(&stats);
	} while (stats.stalls == 0);
	rig.stats(&stats); /* of one moment with the stall: the pages were counted before it */
	CHECK_EQ(stats.pages_in_use, 20);
	CHECK_EQ(rig_unpack(&pair, 0, pair.to), 65536);
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv[0]), 0);
	rig_wait(recv[1]);
	CHECK_EQ(rig_unpack(&pair, 1, pair.to), 65536);
	CHECK(!memcmp(pair.from, pair.to, 65536));
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv[1]), 0);
	rig.stats(&stats);
	CHECK_EQ(stats.pages_in_use, 0);
	rig_pair_close(&pair);
	CHECK_EQ(rig.violations(NULL), 0);
}

/* Silent for ever; closing is clean all the same. */
static void silent(const char *fault, uint64_t pages)
{
	struct tcpxemu_stats stats;
	struct rig_pair pair;
	void *send, *recv;
	int done, sent = 0;

	open_faulty(&pair, fault);
	rig_message(&pair, 50000);
	post_both(&pair, 200000, &send, &recv);
	for (int i = 0; i < 20000; i++) {
		CHECK_EQ(rig.net->test(recv, &done, NULL), 0);
		CHECK_EQ(done, 0);
		if (!sent)
			CHECK_EQ(rig.net->test(send, &sent, NULL), 0);
		sched_yield();
	}
	do { /* what came of the chunk is there */
		rig.stats(&stats);
		sched_yield();
	} while (stats.pages_in_use != pages);
	CHECK_EQ(rig.net->close_send(pair.send), 0);
	CHECK_EQ(rig.net->close_recv(pair.recv), 0);
	rig.stats(&stats);
	CHECK_EQ(stats.pages_in_use, 0);
}

static void fault_helper(void *arg)
{
	(void)arg;
	silent("helper-death:bytes=50000:side=recv", 0);
}

/* In the middle of a chunk. */
static void fault_data_eof(void *arg)
{
	(void)arg;
	silent("data-eof:bytes=60000:side=recv", 3);
}

static void fault_data_eof_sent(void *arg)
{
	(void)arg;
	silent("data-eof:bytes=60000:side=send", 3);
}

static void fault_ctrl_eof(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int rc = 0;

	(void)arg;
	open_faulty(&pair, "ctrl-eof:nth=1:side=send");
	post_both(&pair, 100, &send, &recv);
	rig_wait(send);
	rig_wait(recv);
	CHECK_EQ(rig_irecv(&pair, 0, 100, &recv), 0);
	while (!rig_poll(recv, 1, &rc) && !rc)
		;
	CHECK_EQ(rc, 2);
}

static void fault_enobufs(void *arg)
{
	struct rig_pair pair;

	(void)arg;
	open_faulty(&pair, "enobufs:nth=2");
	for (int i = 0; i < 10; i++)
		rig_message(&pair, 300000);
	rig_pair_close(&pair);
	CHECK_EQ(rig.violations(NULL), 0);
}

static void fault_done_delay(void *arg)
{
	struct rig_pair pair;
	double begin;

	(void)arg;
	open_faulty(&pair, "done-delay:us=50000:side=recv");
	begin = check_seconds();
	rig_message(&pair, 1);
	CHECK(check_seconds() - begin >= 0.05);
}

/* Once, and then as if nothing had been. */
static void fault_test_rc(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int done;

	(void)arg;
	open_faulty(&pair, "test-rc:nth=1:side=send");
	post_both(&pair, 100, &send, &recv);
	CHECK_EQ(rig.net->test(send, &done, NULL), 2);
	CHECK_EQ(done, 0);
	rig_wait_both(send, recv);
}

/* One wrong bit, which nobody but a checksum finds. */
static void fault_flip(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int wrong = 0;

	(void)arg;
	open_faulty(&pair, "flip:nth=2");
	rig_message(&pair, 5000);
	post_both(&pair, 5000, &send, &recv);
	rig_wait_both(send, recv);
	CHECK_EQ(rig_unpack(&pair, 1, pair.to), 5000);
	for (int i = 0; i < 5000; i++)
		wrong += __builtin_popcount(pair.to[i] ^ pair.from[i]);
	CHECK_EQ(wrong, 1);
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv), 0);
	rig_message(&pair, 5000);
}

/* Helpers of open comms without work use no CPU, and neither does one that waits for its peer. */
static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void helpers_sleep(void *arg)
{
	struct timespec second = {1, 0};
	struct rig_pair pair;
	void *recv;
	double before;
	int rc;

	(void)arg;
	setenv("NCCL_NSOCKS_PERTHREAD", "4", 1);
	setenv("NCCL_SOCKET_NTHREADS", "2", 1);
	open_faulty(&pair, "");
	for (int i = 0; i < 8; i++)
		rig_message(&pair, 4096);
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv), 0);
	CHECK(!rig_poll(recv, 3, &rc) && rc == 0);
	before = cpu_seconds();
	nanosleep(&second, NULL);
	CHECK(cpu_seconds() - before < 0.1);
}

static const struct check_case cases[] = {
	{"grammar", fault_grammar},
	{"accept", fault_accept},
	{"connect-never", fault_connect_never},
	{"nulls", fault_nulls},
	{"wrong-nic", fault_wrong_nic},
	{"late", fault_late},
	{"one-byte", fault_one_byte},
	{"frags", fault_frags},
	{"pool", fault_pool},
	{"helper-death", fault_helper},
	{"data-eof", fault_data_eof},
	{"data-eof-sent", fault_data_eof_sent},
	{"ctrl-eof", fault_ctrl_eof},
	{"enobufs", fault_enobufs},
	{"done-delay", fault_done_delay},
	{"test-rc", fault_test_rc},
	{"flip", fault_flip},
	{"helpers-sleep", helpers_sleep},
};

int main(int argc, char **argv)
{
	return check_main(cases, sizeof(cases) / sizeof(*cases), argc > 1 ? argv[1] : NULL, NULL);
}
