/* SPDX-License-Identifier: Apache-2.0 */
/* Consumers that break one rule each; the emulator must notice every one of them. */
#include "emu_rig.h"

#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

static void open_cuda(struct rig_pair *pair)
{
	rig_start();
	rig_pair_open(pair, 0, 0, EMU_CUDA);
}

static void wrong_logger(void *arg)
{
	(void)arg;
	rig_start();
	CHECK_EQ(rig.net->init(NULL), 3);
	rig_expect("null-logger", 1);
}

static void wrong_before_init(void *arg)
{
	int count;

	(void)arg;
	setenv("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "wlan", 1);
	rig_env();
	CHECK_EQ(rig_load(), 3);
	setenv("TCPXEMU_FATAL", "rc", 1);
	CHECK_EQ(rig.net->devices(&count), 3);
	rig_expect("no-init", 1);
}

static void wrong_dead_comm(void *arg)
{
	struct rig_pair pair;
	void *request;

	(void)arg;
	open_cuda(&pair);
	CHECK_EQ(rig.net->close_send(pair.send), 0);
	CHECK_EQ(rig_isend(&pair, 0, 1, &request), 3);
	CHECK_EQ(rig.net->close_send(pair.send), 3);
	rig_expect("dead-comm", 2);
}

static void wrong_listen_reused(void *arg)
{
	struct rig_pair pair;
	void *comm;

	(void)arg;
	rig_start();
	rig_listen(&pair, 0, 0);
	CHECK_EQ(rig_meet(&pair, 0, true), 0);
	CHECK_EQ(rig.net->accept(pair.listen, &comm, &pair.devhandle), 3);
	rig_expect("listen-reused", 1);
}

static void wrong_handle_reused(void *arg)
{
	struct rig_pair pair;
	void *comm;

	(void)arg;
	rig_start();
	rig_listen(&pair, 0, 0);
	CHECK_EQ(rig_meet(&pair, 0, true), 0);
	CHECK_EQ(rig.net->connect(0, pair.handle, &comm, NULL), 3);
	rig_expect("handle-reused", 1);
}

static void wrong_handle_dirty(void *arg)
{
	struct rig_pair pair;
	void *comm;

	(void)arg;
	rig_start();
	rig_listen(&pair, 0, 0);
	pair.handle[81] = 1;
	CHECK_EQ(rig.net->connect(0, pair.handle, &comm, NULL), 3);
	rig_expect("handle-dirty", 1);
}

static void wrong_devhandle_null(void *arg)
{
	struct rig_pair pair;
	struct emu_device_handle *none = NULL;
	int rc;

	(void)arg;
	rig_start();
	rig_listen(&pair, 0, 0);
	while (!pair.send || !pair.recv) {
		if (!pair.send)
			CHECK_EQ(rig.net->connect(0, pair.handle, &pair.send, NULL), 0);
		rc = pair.recv ? 0 : rig.net->accept(pair.listen, &pair.recv, &none);
		if (rc)
			break;
		sched_yield();
	}
	CHECK_EQ(rc, 3);
	rig_expect("devhandle-null", 1);
}

static void wrong_no_devhandle(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int rc, type = arg ? EMU_HOST : EMU_CUDA;

	rig_start();
	rig_listen(&pair, 0, type == EMU_HOST ? 2 : 0);
	CHECK_EQ(rig_meet(&pair, 0, false), 0);
	rig_register(&pair, type);
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 4096, &send), 0);
	rig_wait(send);
	while (!rig_poll(recv, 1, &rc) && !rc)
		;
	CHECK_EQ(rc, 3);
	rig_expect("no-devhandle", 1);
}

static void wrong_no_devhandle_host(void *arg)
{
	int host;

	(void)arg;
	wrong_no_devhandle(&host);
}

/* Pages of the one pool, descriptors into the other: wrong bytes, and no error. */
static void wrong_gpu_mismatch(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;

	(void)arg;
	rig_start();
	rig_listen(&pair, 0, 0);
	rig.set_gpu(1);
	CHECK_EQ(rig_meet(&pair, 0, true), 0);
	rig_register(&pair, EMU_CUDA);
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 4096, &send), 0);
	rig_wait_both(send, recv);
	CHECK_EQ(rig_unpack(&pair, 0, pair.to), 4096);
	CHECK(memcmp(pair.from, pair.to, 4096) != 0);
	rig_expect("gpu-mismatch", 1);
}

static void wrong_early_data(void *arg)
{
	struct rig_pair pair;
	void *send;
	int rc = 0;

	(void)arg;
	/* A thousandth of it: what is sent meanwhile must be there by then. */
	setenv("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", "2000000000", 1);
	rig_start();
	rig_listen(&pair, 0, 0);
	pair.devhandle = (struct emu_device_handle *)(void *)pair.store;
	while (!pair.send) {
		CHECK_EQ(rig.net->connect(0, pair.handle, &pair.send, NULL), 0);
		CHECK_EQ(rig.net->accept(pair.listen, &pair.recv, &pair.devhandle), 0);
		CHECK(!pair.recv);
	}
	pair.from = aligned_alloc(EMU_PAGE, RIG_BUFFER);
	CHECK_EQ(rig.net->reg_mr(pair.send, pair.from, 65536, EMU_CUDA, &pair.send_mr), 0);
	CHECK_EQ(rig_isend(&pair, 0, 65536, &send), 0);
	rig_wait(send);
	while (!rc && !pair.recv) {
		rc = rig.net->accept(pair.listen, &pair.recv, &pair.devhandle);
		sched_yield();
	}
	CHECK_EQ(rc, 3);
	rig_expect("early-data", 1);
}

static void wrong_mr_null(void *arg)
{
	struct rig_pair pair;
	void *request;

	(void)arg;
	open_cuda(&pair);
	CHECK_EQ(rig.net->isend(pair.send, pair.from, 10, 0, NULL, &request), 3);
	rig_expect("mr-null", 1);
}

static void wrong_mr_range(void *arg)
{
	struct rig_pair pair;
	void *send, *mr;
	int rc;

	(void)arg;
	open_cuda(&pair);
	CHECK_EQ(rig.net->reg_mr(pair.send, pair.from, 8192, EMU_CUDA, &mr), 0);
	CHECK_EQ(rig.net->isend(pair.send, pair.from + 4096, 4097, 0, mr, &send), 0);
	while (!rig.violations("mr-range"))
		CHECK(!rig_poll(send, 1, &rc) && rc == 0);
	rig_expect("mr-range", 1);
	CHECK(!rig_poll(send, 1000, &rc) && rc == 0); /* silence, as from a dead helper */
	rig.net->dereg_mr(pair.send, mr);
}

static void far_sender(int fd, void *arg)
{
	struct rig_pair pair = {0};
	void *send;
	int size = *(int *)arg, rc;

	setenv("NCCL_DYNAMIC_CHUNK_SIZE", "1048576", 1);
	rig_start();
	rig_far_read(fd, pair.handle, sizeof(pair.handle));
	while (!pair.send)
		CHECK_EQ(rig.net->connect(0, pair.handle, &pair.send, NULL), 0);
	pair.from = aligned_alloc(EMU_PAGE, RIG_BUFFER);
	CHECK_EQ(rig.net->reg_mr(pair.send, pair.from, 1 << 20, EMU_HOST, &pair.send_mr), 0);
	rig_far_read(fd, &rc, sizeof(rc)); /* the other's accept returned */
	CHECK_EQ(rig_isend(&pair, 0, (size_t)size, &send), 0);
	while (recv(fd, &rc, sizeof(rc), MSG_DONTWAIT) < 0)
		rig_poll(send, 1, &rc);
}

static void wrong_chunk_differs(void *arg)
{
	struct rig_far far;
	struct rig_pair pair;
	void *recv;
	int size = 1 << 20, rc = 0;

	(void)arg;
	rig_far_start(&far, far_sender, &size);
	rig_start();
	rig_listen(&pair, 0, 0);
	rig_far_write(far.fd, pair.handle, sizeof(pair.handle));
	pair.devhandle = (struct emu_device_handle *)(void *)pair.store;
	while (!pair.recv)
		CHECK_EQ(rig.net->accept(pair.listen, &pair.recv, &pair.devhandle), 0);
	rig_far_write(far.fd, &rc, sizeof(rc));
	pair.to = aligned_alloc(EMU_PAGE, RIG_BUFFER);
	CHECK_EQ(rig.net->reg_mr(pair.recv, pair.to, 1 << 20, EMU_CUDA, &pair.recv_mr), 0);
	CHECK_EQ(rig_irecv(&pair, 0, 1 << 20, &recv), 0);
	while (!rig_poll(recv, 1, &rc) && !rc)
		;
	CHECK_EQ(rc, 3);
	rig_expect("chunk-differs", 1);
	rig_far_write(far.fd, &rc, sizeof(rc));
	CHECK_EQ(rig_far_end(&far), 0);
}

static void wrong_iflush(void *arg)
{
	struct rig_pair pair;
	void *request;
	int size = 1;

	(void)arg;
	open_cuda(&pair);
	CHECK_EQ(rig.net->iflush(pair.recv, 1, (void **)&pair.to, &size, &pair.recv_mr, &request),
		 3);
	rig_expect("iflush", 1);
}

static void wrong_nulls(void *arg)
{
	struct rig_pair pair;
	int done = 7;

	(void)arg;
	open_cuda(&pair);
	CHECK_EQ(rig.net->test(NULL, &done, NULL), 3);
	CHECK_EQ(done, 0);
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, NULL), 3);
	CHECK_EQ(rig.violations("test-null"), 1);
	CHECK_EQ(rig.violations("consume-null"), 1);
}

static void wrong_consume_send(void *arg)
{
	struct rig_pair pair;
	void *send;

	(void)arg;
	open_cuda(&pair);
	CHECK_EQ(rig_isend(&pair, 0, 100, &send), 0);
	CHECK_EQ(rig.net->irecv_consumed(pair.send, 1, send), 0);
	rig_expect("consume-send", 1);
}

/* The order of empty messages is not looked at there: here the ring stays whole, and it is told. */
static void wrong_consume_empty(void *arg)
{
	struct rig_pair pair;
	void *send, *recv[2];

	(void)arg;
	open_cuda(&pair);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(rig_irecv(&pair, 0, 0, &recv[i]), 0);
		CHECK_EQ(rig_isend(&pair, 0, 0, &send), 0);
		rig_wait_both(send, recv[i]);
	}
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv[1]), 3);
	rig_expect("consume-empty", 1);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv[i]), 0);
	rig_pair_close(&pair);
}

/* Consumed before the copy has finished: the pages hold something else by then. */
static void wrong_consume_before_copy(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;

	(void)arg;
	open_cuda(&pair);
	CHECK_EQ(rig_irecv(&pair, 0, 65536, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 65536, &send), 0);
	rig_wait_both(send, recv);
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv), 0);
	CHECK_EQ(rig_unpack(&pair, 0, pair.to), 65536);
	for (int i = 0; i < 65536; i++)
		CHECK_EQ(pair.to[i], 0xa5);
}

static void *test_for_ever(void *request)
{
	int done;

	while (!rig.violations("two-threads"))
		rig.net->test(request, &done, NULL);
	return NULL;
}

static void wrong_threads(void *arg)
{
	struct rig_pair pair;
	pthread_t thread;
	void *recv;

	(void)arg;
	open_cuda(&pair);
	CHECK_EQ(rig_irecv(&pair, 0, 100, &recv), 0);
	CHECK_EQ(pthread_create(&thread, NULL, test_for_ever, recv), 0);
	test_for_ever(recv);
	pthread_join(thread, NULL);
	CHECK(rig.violations("two-threads") >= 1);
	rig_expect("two-threads", rig.violations("two-threads"));
}

static void wrong_request_fragments(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int rc = 0, sent = 0;

	(void)arg;
	setenv("NCCL_DYNAMIC_CHUNK_SIZE", "2097152", 1);
	setenv("TCPXEMU_FRAG", "mtu1460", 1);
	open_cuda(&pair);
	CHECK_EQ(rig_irecv(&pair, 0, 4 << 20, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 4 << 20, &send), 0);
	while (!rig_poll(recv, 1, &rc) && !rc) {
		if (!sent)
			CHECK_EQ(rig.net->test(send, &sent, NULL), 0);
	}
	CHECK_EQ(rc, 3);
	CHECK_EQ(rig.violations("request-fragments"), 1);
	CHECK_EQ(rig.violations("multi-chunk"), 1);
}

static void wrong_unconsumed(void *arg)
{
	struct tcpxemu_stats stats;
	struct rig_pair pair;
	void *send, *recv;

	(void)arg;
	open_cuda(&pair);
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 4096, &send), 0);
	rig_wait_both(send, recv);
	rig_pair_close(&pair);
	rig_expect("unconsumed", 1);
	rig.stats(&stats);
	CHECK_EQ(stats.pages_in_use, 0);
}

/* What a fatal violation does to the process. */
static void flush_child(void *arg)
{
	void *request;

	setenv("TCPXEMU_FATAL", arg, 1);
	rig_start();
	rig.net->iflush(NULL, 0, NULL, NULL, NULL, &request);
}

static void wrong_fatal(void *arg)
{
	int status;

	(void)arg;
	status = rig_child(flush_child, "exit");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	status = rig_child(flush_child, "abort");
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	status = rig_child(flush_child, "rc");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static const struct check_case cases[] = {
	{"logger", wrong_logger},
	{"before-init", wrong_before_init},
	{"dead-comm", wrong_dead_comm},
	{"listen-reused", wrong_listen_reused},
	{"handle-reused", wrong_handle_reused},
	{"handle-dirty", wrong_handle_dirty},
	{"devhandle-null", wrong_devhandle_null},
	{"no-devhandle", wrong_no_devhandle},
	{"no-devhandle-host", wrong_no_devhandle_host},
	{"gpu-mismatch", wrong_gpu_mismatch},
	{"early-data", wrong_early_data},
	{"mr-null", wrong_mr_null},
	{"mr-range", wrong_mr_range},
	{"chunk-differs", wrong_chunk_differs},
	{"iflush", wrong_iflush},
	{"nulls", wrong_nulls},
	{"consume-send", wrong_consume_send},
	{"consume-empty", wrong_consume_empty},
	{"consume-before-copy", wrong_consume_before_copy},
	{"two-threads", wrong_threads},
	{"request-fragments", wrong_request_fragments},
	{"unconsumed", wrong_unconsumed},
	{"fatal", wrong_fatal},
};

int main(int argc, char **argv)
{
	return check_main(cases, sizeof(cases) / sizeof(*cases), argc > 1 ? argv[1] : NULL, NULL);
}
