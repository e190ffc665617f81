/* SPDX-License-Identifier: Apache-2.0 */
/* What the real plugin answers to questions that a consumer may ask, one case each: requests. */
#include "emu_rig.h"

#include <sched.h>

#define POLLS 20000 /* for what must not happen */

static void probe_sizes(void *arg)
{
	static const size_t sizes[] = {0, 1, 7, 4095, 4096, 4097, 65536, 524287, 524288};
	struct tcpxemu_stats stats;
	struct rig_pair pair;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	for (int round = 0; round < 5; round++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
			rig_message(&pair, sizes[i]);
	}
	rig.stats(&stats);
	CHECK_EQ(stats.pages_in_use, 0);
	CHECK_EQ(stats.received_messages, 44); /* and an empty one that begins the comm */
	CHECK(stats.devmem_packets[0] >= 5 * 64 * 2 && stats.devmem_packets[1] == 0);
	rig_pair_close(&pair);
	rig_expect("ring-full", 0);
}

static void probe_tags(void *arg)
{
	struct rig_pair pair;
	void *send, *recv, *at;
	int size = 100, tag = 99;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	at = pair.to;
	CHECK_EQ(rig.net->irecv(pair.recv, 1, &at, &size, &tag, &pair.recv_mr, &recv), 0);
	CHECK_EQ(rig.net->isend(pair.send, pair.from, 100, 7, pair.send_mr, &send), 0);
	rig_wait_both(send, recv);
	rig_expect("test-order", 0);
}

static void probe_test_second(void *arg)
{
	struct rig_pair pair;
	void *send[2], *recv[2];
	int done, rc;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv[i]), 0);
	/* Nothing is sent yet: the oldest is not under way, so asking for the second is silent. */
	CHECK(!rig_poll(recv[1], 3, &rc) && rc == 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rig_isend(&pair, 0, 4096, &send[i]), 0);
	rig_wait(send[0]);
	rig_wait(send[1]);
	do { /* the oldest gets under way by these calls, and then the second is refused */
		rc = rig.net->test(recv[1], &done, NULL);
		CHECK_EQ(done, 0);
	} while (rc == 0);
	CHECK_EQ(rc, 3);
	rig_wait(recv[0]);
	rig_wait(recv[1]);
	CHECK(rig.violations("test-order") >= 4);
	rig_expect("test-order", rig.violations("test-order"));
}

static void probe_test_done(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int rc;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 4096, &send), 0);
	rig_wait_both(send, recv);
	CHECK(!rig_poll(recv, 5, &rc) && rc == 0);
	CHECK(!rig_poll(send, 5, &rc) && rc == 0);
	rig_expect("test-done", 10);
}

static void receive_some(struct rig_pair *pair, void **recv, int count)
{
	void *send;

	for (int i = 0; i < count; i++) {
		CHECK_EQ(rig_irecv(pair, 0, 4096, &recv[i]), 0);
		CHECK_EQ(rig_isend(pair, 0, 4096, &send), 0);
		rig_wait_both(send, recv[i]);
	}
}

static void probe_consume_order(void *arg)
{
	struct rig_pair pair;
	void *recv[3];

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	receive_some(&pair, recv, 3);
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv[1]), 3);
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv[0]), 0);
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv[0]), 3);
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv[1]), 0);
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv[2]), 0);
	rig_expect("consume-order", 2);
	rig_message(&pair, 5000);
	rig_pair_close(&pair);
}

static void probe_consume_early(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv), 0);
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv), 3);
	CHECK_EQ(rig_isend(&pair, 0, 4096, &send), 0);
	rig_wait_both(send, recv);
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv), 0);
	rig_expect("consume-order", 1);
}

static void probe_irecv_n(void *arg)
{
	struct rig_pair pair;
	void *data[2], *mrs[2], *request;
	int sizes[2] = {1, 1}, tags[2] = {0, 0};

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	data[0] = data[1] = pair.to;
	mrs[0] = mrs[1] = pair.recv_mr;
	CHECK_EQ(rig.net->irecv(pair.recv, 2, data, sizes, tags, mrs, &request), 3);
	rig_expect("irecv-n", 1);
}

static void probe_ring_full(void *arg)
{
	struct rig_pair pair;
	void *send, *recv[17];

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	for (int i = 0; i < 16; i++)
		CHECK_EQ(rig_isend(&pair, 0, 4096, &send), 0);
	CHECK_EQ(rig_isend(&pair, 0, 4096, &send), 3);
	for (int i = 0; i < 16; i++)
		CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv[i]), 0);
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv[16]), 3);
	rig_expect("ring-full", 2);
}

/* Receives that are done hold their place until they are consumed, in host memory too. */
static void probe_no_consume(void *arg)
{
	int type = arg ? *(int *)arg : EMU_CUDA;
	struct rig_pair pair;
	void *recv[17];

	rig_start();
	rig_pair_open(&pair, 0, type == EMU_CUDA ? 0 : 2, type);
	receive_some(&pair, recv, 16);
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv[16]), 3);
	CHECK_EQ(rig.net->irecv_consumed(pair.recv, 1, recv[0]), 0);
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv[16]), 0);
	rig_expect("ring-full", 1);
}

static void probe_no_consume_host(void *arg)
{
	int type = EMU_HOST;

	(void)arg;
	probe_no_consume(&type);
}

/* Posted sizes are nobody's limit, and the caller's size is never written. */
static void probe_short_send(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int done = 0, size = -7;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	CHECK_EQ(rig_irecv(&pair, 0, 65536, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 1000, &send), 0);
	rig_wait(send);
	while (!done)
		CHECK_EQ(rig.net->test(recv, &done, &size), 0);
	CHECK_EQ(size, -7);
	CHECK_EQ(rig_unpack(&pair, 0, pair.to), 1000);
	rig_expect("overrun", 0);
}

static void probe_long_send(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 2, EMU_HOST);
	CHECK_EQ(rig_irecv(&pair, 0, 1000, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 5000, &send), 0);
	rig_wait_both(send, recv);
	CHECK(memcmp(pair.from, pair.to, 5000) == 0); /* behind the receive's end */
	rig_expect("overrun", 1);
}

static void probe_peer_closed_recv(void *arg)
{
	struct rig_pair pair;
	void *recv;
	int rc;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv), 0);
	CHECK_EQ(rig.net->close_send(pair.send), 0);
	do {
		int done;

		rc = rig.net->test(recv, &done, NULL);
		CHECK_EQ(done, 0);
	} while (rc == 0);
	CHECK_EQ(rc, 2);
}

static void send_for_ever(void *arg)
{
	struct rig_pair pair;
	void *send;
	int done, rc = 0;

	(void)arg;
	signal(SIGPIPE, SIG_DFL);
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	CHECK_EQ(rig.net->close_recv(pair.recv), 0);
	while (!rc && !rig_isend(&pair, 0, RIG_CHUNK, &send)) {
		for (done = 0; !done && !rc;)
			rc = rig.net->test(send, &done, NULL);
	}
	_exit(40 + rc);
}

static void probe_peer_closed_send(void *arg)
{
	int status;

	(void)arg;
	rig_start();
	status = rig_child(send_for_ever, NULL);
	/* A reset may be heard as an error of the control socket first. */
	CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) ||
	      (WIFEXITED(status) && WEXITSTATUS(status) == 42));
}

static void probe_receiver_gone(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int rc;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	CHECK_EQ(rig_irecv(&pair, 0, RIG_CHUNK, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, RIG_CHUNK, &send), 0);
	rig_wait(send); /* into the socket */
	CHECK_EQ(rig.net->close_recv(pair.recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, RIG_CHUNK, &send), 0);
	CHECK(!rig_poll(send, POLLS, &rc) && (rc == 0 || rc == 2));
}

static void probe_chunk_unset(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int rc;

	(void)arg;
	setenv("NCCL_DYNAMIC_CHUNK_SIZE", "0", 1);
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	rig_message(&pair, 0); /* an empty one passes */
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 4096, &send), 0);
	CHECK(!rig_poll(send, POLLS, &rc) && rc == 0);
	CHECK(!rig_poll(recv, POLLS, &rc) && rc == 0);
	rig_expect("chunk-unset", 1);
}

static void probe_host_steered(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int rc;

	(void)arg;
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_HOST);
	CHECK_EQ(rig_irecv(&pair, 0, 4096, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 4096, &send), 0);
	rig_wait(send);
	CHECK(!rig_poll(recv, POLLS, &rc) && rc == 0);
	while (rig.violations("host-steered") == 0)
		sched_yield();
	rig_expect("host-steered", 1);
}

/* 2047 fragments pass, one page more does not. */
static void probe_fragments(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int done = 0, rc = 0;

	(void)arg;
	setenv("NCCL_DYNAMIC_CHUNK_SIZE", "8388608", 1);
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	rig_message(&pair, 8384512);
	CHECK_EQ(rig_irecv(&pair, 0, RIG_BUFFER, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, RIG_BUFFER, &send), 0);
	while (!rc) {
		if (!done)
			CHECK_EQ(rig.net->test(send, &done, NULL), 0);
		int received;
		rc = rig.net->test(recv, &received, NULL);
		CHECK_EQ(received, 0);
	}
	CHECK_EQ(rc, 3);
	rig_expect("chunk-fragments", 1);
}

static void probe_fragments_mtu(void *arg)
{
	struct rig_pair pair;
	void *send, *recv;
	int rc = 0, done;

	(void)arg;
	setenv("NCCL_DYNAMIC_CHUNK_SIZE", "4194304", 1);
	setenv("TCPXEMU_FRAG", "mtu1460", 1);
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	rig_message(&pair, 2 << 20);
	CHECK_EQ(rig_count(&pair, 0), ((2 << 20) + 1447) / 1448);
	CHECK_EQ(rig_irecv(&pair, 0, 4 << 20, &recv), 0);
	CHECK_EQ(rig_isend(&pair, 0, 4 << 20, &send), 0);
	while (!rc) {
		rig_poll(send, 1, &rc);
		CHECK_EQ(rc, 0);
		rc = rig.net->test(recv, &done, NULL);
	}
	CHECK_EQ(rc, 3);
	CHECK_EQ(rig.violations("chunk-fragments"), 1);
}

/* Settings that change how, not what. */
static void option_child(void *arg)
{
	struct rig_pair pair;

	setenv(arg, strstr(arg, "ALG") ? "KATY" : "1", 1);
	setenv("NCCL_NSOCKS_PERTHREAD", "3", 1);
	setenv("TCPXEMU_LEAK", "fixed", 1);
	setenv("NCCL_DYNAMIC_CHUNK_SIZE", "65536", 1);
	rig_start();
	rig_pair_open(&pair, 0, 0, EMU_CUDA);
	for (int i = 0; i < 40; i++)
		rig_message(&pair, (size_t)i * 20000);
	rig_pair_close(&pair);
	CHECK_EQ(rig.violations(NULL), rig.violations("multi-chunk"));
}

static void probe_options(void *arg)
{
	(void)arg;
	CHECK_EQ(rig_child(option_child, "NCCL_GPUDIRECTTCPX_RECV_SYNC"), 0);
	CHECK_EQ(rig_child(option_child, "NCCL_GPUDIRECTTCPX_SCHED_ALG"), 0);
	CHECK_EQ(rig_child(option_child, "TCPXEMU_ZEROCOPY"), 0);
}

static const struct check_case cases[] = {
	{"sizes", probe_sizes},
	{"options", probe_options},
	{"tags", probe_tags},
	{"test-second", probe_test_second},
	{"test-done", probe_test_done},
	{"consume-order", probe_consume_order},
	{"consume-early", probe_consume_early},
	{"irecv-n", probe_irecv_n},
	{"ring-full", probe_ring_full},
	{"no-consume", probe_no_consume},
	{"no-consume-host", probe_no_consume_host},
	{"short-send", probe_short_send},
	{"long-send", probe_long_send},
	{"peer-closed-recv", probe_peer_closed_recv},
	{"peer-closed-send", probe_peer_closed_send},
	{"receiver-gone", probe_receiver_gone},
	{"chunk-unset", probe_chunk_unset},
	{"host-steered", probe_host_steered},
	{"fragments", probe_fragments},
	{"fragments-mtu", probe_fragments_mtu},
};

int main(int argc, char **argv)
{
	return check_main(cases, sizeof(cases) / sizeof(*cases), argc > 1 ? argv[1] : NULL, NULL);
}
