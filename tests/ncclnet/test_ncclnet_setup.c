/* SPDX-License-Identifier: Apache-2.0 */
/* Setup operations: retried and blocking ones, GPUs that are current for them, deadlines, threads
 * that are stuck, registration piece by piece. */
#include "ncclnet_rig.h"

static _Thread_local int gpu_now = -1;
static atomic_int enters, leaves, at_once, at_once_max;

static int gpu_current(void)
{
	return gpu_now;
}

static tcpx_status gpu_enter(void *arg, int gpu, void **out_before)
{
	int now = atomic_fetch_add(&at_once, 1) + 1;

	if (now > atomic_load(&at_once_max))
		atomic_store(&at_once_max, now);
	atomic_fetch_add(&enters, 1);
	*out_before = arg;
	gpu_now = gpu;
	return TCPX_OK;
}

static void gpu_leave(void *arg, int gpu, void *before)
{
	assert_ptr_equal(arg, before);
	assert_int_equal(gpu, gpu_now);
	gpu_now = -1;
	atomic_fetch_sub(&at_once, 1);
	atomic_fetch_add(&leaves, 1);
}

static const struct net_gpu_ops gpu_ops = {gpu_enter, gpu_leave};

static tcpx_status gpu_refuses(void *arg, int gpu, void **out_before)
{
	(void)arg, (void)out_before;
	return error_set(TCPX_ERR_SYSTEM, 0, "no context for GPU %d", gpu);
}

static void ended(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void retried(void **state)
{
	struct net_setup_opts opts;
	atomic_int ends = 0;
	struct rig rig;

	(void)state;
	rig_open(&rig, RIG_FAKE("v7"));
	rig.fake->null_comms = 5;
	opts = rig_opts(&rig, RIG_GUARD_NS);
	opts.ended = ended;
	opts.ended_arg = &ends;
	rig_pair(&rig, &opts);
	rig.fake->null_comms = 0;
	assert_int_equal(ends, 3);
	assert_int_equal(net_comm_device(rig.recv)->type, NCCLNET_DEVICE_UNPACK);
	assert_int_equal(net_comm_device(rig.recv)->size, 24);
	assert_int_equal(net_comm_device(rig.send)->type, NCCLNET_DEVICE_HOST);
	assert_int_equal(rig.fake->unlistens, 1);
	rig_end(&rig);
}

static void refused(void **state)
{
	struct net_setup_opts opts;
	struct net_setup_result result;
	struct net_listener *listener;
	struct net_setup *setup;
	int unlistens;
	struct rig rig;

	(void)state;
	rig_open(&rig, RIG_FAKE("v7"));
	opts = rig_opts(&rig, RIG_GUARD_NS);
	listener = rig_listen(&opts);
	unlistens = rig.fake->unlistens;
	rig.fake->setup_rc = 2;
	assert_int_equal(net_connect_start(&opts, net_listener_handle(listener), &setup), TCPX_OK);
	assert_int_equal(net_setup_wait(setup, &result), TCPX_ERR_CHANNEL_LOST);
	assert_said("channel 3, NIC fake0, peer rank1: connect: rc 2");
	assert_int_equal(net_accept_start(&opts, listener, &setup), TCPX_OK);
	assert_int_equal(net_setup_wait(setup, &result), TCPX_ERR_CHANNEL_LOST);
	assert_said("accept: rc 2");
	rig.fake->setup_rc = 0;
	assert_int_equal(rig.fake->unlistens, unlistens + 1);
	opts.dev = 7;
	assert_int_equal(net_listen_start(&opts, &setup), TCPX_ERR_INVALID);
	rig_end(&rig);
}

/* Nobody connects: the call comes back each time, and the listener stays as it is. */
static void accept_times_out(void **state)
{
	struct net_setup_opts opts;
	struct net_setup_result result;
	struct net_listener *listener;
	struct net_setup *setup;
	unsigned leaked;
	struct rig rig;

	(void)state;
	rig_open(&rig, RIG_FAKE("v7"));
	leaked = rig_info(&rig).leaked;
	opts = rig_opts(&rig, RIG_GUARD_NS);
	listener = rig_listen(&opts);
	opts.deadline_ns = clock_after(RIG_SHORT_NS);
	assert_int_equal(net_accept_start(&opts, listener, &setup), TCPX_OK);
	assert_int_equal(net_setup_wait(setup, &result), TCPX_ERR_TIMED_OUT);
	assert_said("channel 3, NIC fake0, peer rank1: accept");
	rig_until_abandoned(&rig, 0);
	assert_int_equal(rig_info(&rig).leaked, leaked + 1);
	rig_end(&rig);
}

/* A call that does not come back keeps its thread, and everything that it was given; when it does
 * come back, what it brings is closed. Others go on meanwhile. */
static void accept_never_returns(void **state)
{
	struct net_setup_opts opts, brief;
	struct net_setup_result result;
	struct net_listener *listener;
	struct net_setup *setup, *connect;
	atomic_int ends = 0;
	struct rig rig, other;

	(void)state;
	rig_open(&rig, RIG_FAKE("v7"));
	opts = rig_opts(&rig, RIG_GUARD_NS);
	listener = rig_listen(&opts);
	assert_int_equal(net_connect_start(&opts, net_listener_handle(listener), &connect),
			 TCPX_OK);
	assert_int_equal(net_setup_wait(connect, &result), TCPX_OK);
	rig.send = result.comm;
	rig.fake->blocks_accept = 1;
	brief = rig_opts(&rig, RIG_SHORT_NS);
	brief.ended = ended;
	brief.ended_arg = &ends;
	assert_int_equal(net_accept_start(&brief, listener, &setup), TCPX_OK);
	rig_until(&rig.fake->in_accept, 1);
	assert_int_equal(net_setup_wait(setup, &result), TCPX_ERR_TIMED_OUT);
	assert_int_equal(rig_info(&rig).abandoned, 1);
	rig_open(&other, RIG_FAKE("v8"));
	opts = rig_opts(&other, RIG_GUARD_NS);
	rig_pair(&other, &opts);
	rig_end(&other);
	rig_let(&rig.fake->blocks_accept);
	rig_until_abandoned(&rig, 0);
	assert_int_equal(ends, 0);
	assert_int_equal(rig.fake->recvs_open, 0);
	rig_end(&rig);
}

/* A plugin whose calls do not come back, and a peer that tries again and again: threads do not
 * heap up, and what ends something goes on. */
static void too_many_abandoned(void **state)
{
	struct net_setup_opts opts;
	struct net_listener *spare;
	struct net_setup *setup;
	struct rig rig;

	(void)state;
	rig_open(&rig, RIG_FAKE("v10"));
	opts = rig_opts(&rig, RIG_GUARD_NS);
	spare = rig_listen(&opts);
	rig.fake->blocks_accept = 1;
	for (unsigned i = 0; i < NET_SETUPS_ABANDONED_MAX; i++) {
		assert_int_equal(net_accept_start(&opts, rig_listen(&opts), &setup), TCPX_OK);
		net_setup_abandon(setup);
	}
	assert_int_equal(net_listen_start(&opts, &setup), TCPX_ERR_LIMIT);
	assert_said("256 calls of fake-net-v10.so have not returned");
	assert_int_equal(net_accept_start(&opts, spare, &setup), TCPX_ERR_LIMIT);
	assert_int_equal(net_unlisten_start(&opts, spare, &setup), TCPX_OK);
	assert_int_equal(net_setup_wait(setup, NULL), TCPX_OK);
	rig_let(&rig.fake->blocks_accept);
	rig_until_abandoned(&rig, 0);
	spare = rig_listen(&opts);
	assert_int_equal(net_unlisten_start(&opts, spare, &setup), TCPX_OK);
	assert_int_equal(net_setup_wait(setup, NULL), TCPX_OK);
	rig_end(&rig);
}

static void not_wanted(void **state)
{
	struct net_setup_opts opts;
	struct net_setup *setup;
	atomic_int ends = 0;
	int unlistens;
	struct rig rig;

	(void)state;
	rig_open(&rig, RIG_FAKE("v7"));
	unlistens = rig.fake->unlistens;
	opts = rig_opts(&rig, RIG_GUARD_NS);
	opts.ended = ended;
	opts.ended_arg = &ends;
	assert_int_equal(net_listen_start(&opts, &setup), TCPX_OK);
	rig_until(&ends, 1);
	net_setup_abandon(setup);
	rig_until(&rig.fake->unlistens, unlistens + 1);
	rig_until_abandoned(&rig, 0);
	opts.ended = NULL;
	assert_int_equal(net_unlisten_start(&opts, rig_listen(&opts), &setup), TCPX_OK);
	assert_int_equal(net_setup_wait(setup, NULL), TCPX_OK);
	assert_int_equal(rig.fake->unlistens, unlistens + 2);
	rig_end(&rig);
}

static void gpu_is_current(void **state)
{
	static char page[4096] __attribute__((aligned(4096)));
	struct net_setup_opts opts;
	struct net_setup *setup;
	struct rig rig;

	(void)state;
	rig_open(&rig, RIG_FAKE("v7"));
	rig.fake->null_comms = 3;
	rig.fake->want_gpu = 5;
	rig.fake->current_gpu = gpu_current;
	opts = rig_opts(&rig, RIG_GUARD_NS);
	opts.gpu = 5;
	assert_int_equal(net_listen_start(&opts, &setup), TCPX_ERR_INVALID);
	opts.gpu_ops = &gpu_ops;
	opts.gpu_arg = &rig;
	rig_pair(&rig, &opts);
	rig_register(&opts, rig.recv, page, sizeof(page), NCCLNET_PTR_CUDA);
	/* One listen, four and more of connect and accept, their closing, regMr. */
	assert_true(enters >= 11);
	assert_int_equal(enters, leaves);
	assert_int_equal(at_once_max, 1); /* the first use of a GPU is one thread's */
	rig.fake->null_comms = 0;
	rig.fake->current_gpu = NULL;
	rig.fake->want_gpu = -1;
	opts.gpu_ops = &(struct net_gpu_ops){gpu_refuses, gpu_leave};
	assert_int_equal(net_listen_start(&opts, &setup), TCPX_OK);
	assert_int_equal(net_setup_wait(setup, NULL), TCPX_ERR_SYSTEM);
	assert_said("no context for GPU 5");
	rig_end(&rig);
}

/* Nothing of it is touched: a fake address will do. */
static void in_pieces(void **state)
{
	const uint64_t gib = 1ull << 30, page = NET_MR_PAGE;
	char *base = (char *)(uintptr_t)(4 * gib);
	struct net_setup_opts opts;
	struct net_setup *setup;
	struct net_mr *mr;
	struct rig rig;
	int first;

	(void)state;
	rig_open(&rig, RIG_FAKE("v10"));
	opts = rig_opts(&rig, RIG_GUARD_NS);
	rig_pair(&rig, &opts);
	first = rig.fake->regs;
	mr = rig_register(&opts, rig.recv, base, 2 * gib + 3 * NET_MR_OVERLAP, NCCLNET_PTR_CUDA);
	assert_int_equal(rig.fake->regs, first + 3);
	assert_int_equal(rig.fake->sizes[0], gib + NET_MR_OVERLAP);
	assert_int_equal(rig.fake->sizes[1], gib + NET_MR_OVERLAP);
	assert_int_equal(rig.fake->sizes[2], 3 * NET_MR_OVERLAP);
	assert_int_equal(net_mr_reach(mr, base), gib + NET_MR_OVERLAP);
	assert_int_equal(net_mr_reach(mr, base + gib - 1), NET_MR_OVERLAP + 1);
	assert_int_equal(net_mr_reach(mr, base + 2 * gib), 3 * NET_MR_OVERLAP);
	assert_int_equal(net_mr_reach(mr, base - 1), 0);
	assert_int_equal(net_mr_reach(mr, base + 2 * gib + 3 * NET_MR_OVERLAP), 0);
	assert_int_equal(net_deregister_start(&opts, mr, &setup), TCPX_OK);
	assert_int_equal(net_setup_wait(setup, NULL), TCPX_OK);
	assert_int_equal(rig.fake->deregs, 3);

	/* What fails in the middle is taken back. */
	rig.fake->reg_rc_at = 2;
	assert_int_equal(
		net_register_start(&opts, rig.recv, base, 3 * gib, NCCLNET_PTR_CUDA, &setup),
		TCPX_OK);
	assert_int_equal(net_setup_wait(setup, NULL), TCPX_ERR_CHANNEL_LOST);
	assert_said("regMr: rc 3");
	assert_int_equal(rig.fake->deregs, rig.fake->regs);

	/* What the plugin would take badly is not tried. */
	assert_int_equal(
		net_register_start(&opts, rig.recv, base + 8, page, NCCLNET_PTR_CUDA, &setup),
		TCPX_ERR_INVALID);
	assert_int_equal(
		net_register_start(&opts, rig.recv, base, page + 8, NCCLNET_PTR_CUDA, &setup),
		TCPX_ERR_INVALID);
	assert_int_equal(
		net_register_start(&opts, rig.recv, base, page, NCCLNET_PTR_DMABUF, &setup),
		TCPX_ERR_UNSUPPORTED);
	rig_end(&rig);
}

/* A close does not free the comm under a registration that is stuck in it. */
static void close_beside_stuck_reg(void **state)
{
	struct net_setup_opts opts, brief;
	struct net_setup *setup;
	struct rig rig;
	int regs;

	(void)state;
	rig_open(&rig, RIG_FAKE("v12"));
	opts = rig_opts(&rig, RIG_GUARD_NS);
	rig_pair(&rig, &opts);
	regs = rig.fake->regs;
	rig.fake->blocks_reg = 1;
	assert_int_equal(net_register_start(&opts, rig.recv, rig.in, sizeof(rig.in),
					    NCCLNET_PTR_HOST, &setup),
			 TCPX_OK);
	rig_until(&rig.fake->regs, regs + 1);
	rig_due(setup);
	assert_int_equal(net_setup_wait(setup, NULL), TCPX_ERR_TIMED_OUT);
	brief = rig_opts(&rig, RIG_SHORT_NS);
	assert_int_equal(rig_close_one(&brief, rig.recv), TCPX_ERR_TIMED_OUT);
	rig_until_abandoned(&rig, 1); /* the close gave up by itself */
	rig_let(&rig.fake->blocks_reg);
	rig_until_abandoned(&rig, 0);
	assert_int_equal(rig.fake->recvs_open, 1); /* left as it is */
	rig.fake->recvs_open = 0;
	rig.fake->deregs = rig.fake->regs; /* one of that comm */
	rig.recv = NULL;
	rig_end(&rig);
}

/* One that ends is waited for. */
static void close_behind_reg(void **state)
{
	struct net_setup *reg, *shut;
	struct net_setup_opts opts;
	struct rig rig;
	int regs;

	(void)state;
	rig_open(&rig, RIG_FAKE("v7"));
	opts = rig_opts(&rig, RIG_GUARD_NS);
	rig_pair(&rig, &opts);
	regs = rig.fake->regs;
	rig.fake->blocks_reg = 1;
	assert_int_equal(
		net_register_start(&opts, rig.recv, rig.in, sizeof(rig.in), NCCLNET_PTR_HOST, &reg),
		TCPX_OK);
	rig_until(&rig.fake->regs, regs + 1);
	assert_int_equal(net_close_start(&opts, rig.recv, &shut), TCPX_OK);
	rig.recv = NULL;
	assert_int_equal(net_setup_finish(shut, NULL), TCPX_IN_PROGRESS);
	rig_let(&rig.fake->blocks_reg);
	assert_int_equal(net_setup_wait(reg, NULL), TCPX_OK);
	assert_int_equal(net_setup_wait(shut, NULL), TCPX_OK);
	rig_end(&rig);
}

/* Without the GPU's context the plugin is not called, so it has the comm as before. */
static void close_without_gpu(void **state)
{
	struct net_setup_opts opts;
	struct rig rig;
	int open;

	(void)state;
	rig_comms(&rig, RIG_FAKE("v11"));
	open = rig.fake->sends_open;
	opts = rig_opts(&rig, RIG_GUARD_NS);
	opts.gpu = 5;
	opts.gpu_ops = &(struct net_gpu_ops){gpu_refuses, gpu_leave};
	assert_int_equal(rig_close_one(&opts, rig.send), TCPX_ERR_TIMED_OUT);
	assert_said("no context for GPU 5");
	assert_int_equal(rig.fake->sends_open, open);
	assert_int_equal(rig_info(&rig).leaked, 1);
	opts = rig_opts(&rig, RIG_GUARD_NS);
	assert_int_equal(rig_close_one(&opts, rig.recv), TCPX_OK);
}

static void close_never_returns(void **state)
{
	struct net_setup_opts brief;
	struct rig rig;

	(void)state;
	rig_comms(&rig, RIG_FAKE("v9"));
	rig.fake->blocks_close = 1;
	brief = rig_opts(&rig, RIG_SHORT_NS);
	assert_int_equal(rig_close_one(&brief, rig.send), TCPX_ERR_TIMED_OUT);
	assert_said("close");
	assert_int_equal(rig_info(&rig).abandoned, 1);
	rig_let(&rig.fake->blocks_close);
	rig_until_abandoned(&rig, 0);
	rig.send = NULL;
	rig.fake->close_rc = 2;
	brief = rig_opts(&rig, RIG_GUARD_NS);
	assert_int_equal(rig_close_one(&brief, rig.recv), TCPX_ERR_CHANNEL_LOST);
	rig.fake->close_rc = 0;
	rig.recv = NULL;
	rig_end(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retried),	     cmocka_unit_test(refused),
		cmocka_unit_test(accept_times_out),  cmocka_unit_test(accept_never_returns),
		cmocka_unit_test(not_wanted),	     cmocka_unit_test(gpu_is_current),
		cmocka_unit_test(in_pieces),	     cmocka_unit_test(close_beside_stuck_reg),
		cmocka_unit_test(close_behind_reg),  cmocka_unit_test(close_never_returns),
		cmocka_unit_test(close_without_gpu), cmocka_unit_test(too_many_abandoned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
