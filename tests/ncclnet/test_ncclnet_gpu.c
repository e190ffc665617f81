/* SPDX-License-Identifier: Apache-2.0 */
/* The first use of a GPU: accepts of its channels take turns until one of them has completed. */
#include "frozen_clock.h"
#include "ncclnet_rig.h"

static tcpx_status gpu_enter(void *arg, int gpu, void **out_before)
{
	(void)gpu;
	*out_before = arg;
	return TCPX_OK;
}

static void gpu_leave(void *arg, int gpu, void *before)
{
	(void)gpu;
	assert_ptr_equal(arg, before);
}

static const struct net_gpu_ops gpu_ops = {gpu_enter, gpu_leave};

/* A channel whose peer has connected. */
struct accepting {
	struct net_setup_opts opts;
	struct net_listener *listener;
	struct net_comm *send;
	struct net_setup *setup;
};

static void accept_prepare(struct rig *rig, int gpu, unsigned channel, struct accepting *out)
{
	struct net_setup_result result;
	struct net_setup *setup;

	out->opts = rig_opts(rig, RIG_GUARD_NS);
	out->opts.gpu = gpu;
	out->opts.gpu_ops = &gpu_ops;
	out->opts.gpu_arg = rig;
	out->opts.channel = channel;
	out->listener = rig_listen(&out->opts);
	assert_int_equal(net_connect_start(&out->opts, net_listener_handle(out->listener), &setup),
			 TCPX_OK);
	assert_int_equal(net_setup_wait(setup, &result), TCPX_OK);
	out->send = result.comm;
}

static void accept_begin(struct accepting *at, int64_t ns)
{
	at->opts.deadline_ns = clock_after(ns);
	assert_int_equal(net_accept_start(&at->opts, at->listener, &at->setup), TCPX_OK);
}

/* It gives its comm; both ends are closed. */
static void accept_end(struct accepting *at)
{
	struct net_setup_result result;

	assert_int_equal(net_setup_wait(at->setup, &result), TCPX_OK);
	at->opts.deadline_ns = clock_after(RIG_GUARD_NS);
	assert_int_equal(rig_close_one(&at->opts, at->send), TCPX_OK);
	assert_int_equal(rig_close_one(&at->opts, result.comm), TCPX_OK);
}

/* It waits for its turn, or went on without one. */
static void until_waits(struct rig *rig, struct accepting *at, int in_accept)
{
	while (!atomic_load(&at->setup->waits) && atomic_load(&rig->fake->in_accept) < in_accept)
		sched_yield();
}

/* What makes a GPU's pool is an accept that completes, and two of them never do so at once, on
 * whatever channels, before one has given its comm: neither the connects nor a registration of
 * these channels show that the GPU is ready. gpu -1: the plugin takes the first one by itself. */
static void accepts_take_turns(struct rig *rig, int gpu)
{
	struct accepting at[4];

	for (unsigned i = 0; i < 4; i++)
		accept_prepare(rig, gpu, i, &at[i]);
	rig_register(&at[1].opts, at[1].send, rig->out, sizeof(rig->out), NCCLNET_PTR_HOST);
	rig->fake->blocks_accept = 1;
	accept_begin(&at[0], RIG_GUARD_NS);
	rig_until(&rig->fake->in_accept, 1);
	accept_begin(&at[1], RIG_GUARD_NS);
	until_waits(rig, &at[1], 2);
	assert_int_equal(rig->fake->in_accept, 1);
	rig_let(&rig->fake->blocks_accept);
	accept_end(&at[0]);
	accept_end(&at[1]);

	/* From now on they go side by side. */
	rig->fake->blocks_accept = 1;
	accept_begin(&at[2], RIG_GUARD_NS);
	accept_begin(&at[3], RIG_GUARD_NS);
	rig_until(&rig->fake->in_accept, 2);
	rig_let(&rig->fake->blocks_accept);
	accept_end(&at[2]);
	accept_end(&at[3]);
}

static void accepts_one_by_one(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, RIG_FAKE("v7"));
	accepts_take_turns(&rig, 20);
	rig_end(&rig);
	rig_open(&rig, RIG_FAKE("v9"));
	accepts_take_turns(&rig, -1);
	rig_end(&rig);
}

/* GPUs do not wait for one another. */
static void accepts_of_two_gpus(void **state)
{
	struct accepting at[2];
	struct rig rig;

	(void)state;
	rig_open(&rig, RIG_FAKE("v7"));
	for (unsigned i = 0; i < 2; i++)
		accept_prepare(&rig, 21 + (int)i, i, &at[i]);
	rig.fake->blocks_accept = 1;
	accept_begin(&at[0], RIG_GUARD_NS);
	accept_begin(&at[1], RIG_GUARD_NS);
	rig_until(&rig.fake->in_accept, 2);
	rig_let(&rig.fake->blocks_accept);
	accept_end(&at[0]);
	accept_end(&at[1]);
	rig_end(&rig);
}

/* One that hangs is waited for, then left alone: the GPU's other channels come up. Errors say where
 * their thread is. */
static void accept_hangs(void **state)
{
	struct net_setup_result result;
	struct accepting at[3];
	struct rig rig;

	(void)state;
	rig_open(&rig, RIG_FAKE("v8"));
	for (unsigned i = 0; i < 3; i++)
		accept_prepare(&rig, 23, 30 + i, &at[i]);
	rig.fake->hangs = rig.fake->hangs_next = 1;
	accept_begin(&at[0], RIG_GUARD_NS);
	rig_until(&rig.fake->in_accept, 1);
	freeze_clock(true);
	accept_begin(&at[1], RIG_SHORT_NS);
	until_waits(&rig, &at[1], 2); /* only then does its error name the other accept */
	freeze_clock(false);
	assert_int_equal(net_setup_wait(at[1].setup, &result), TCPX_ERR_TIMED_OUT);
	assert_said("channel 31, NIC fake0, peer rank1: accept: not finished in time: it waits for "
		    "channel 30's accept, which has been in the plugin with GPU 23 for ");
	rig_until_abandoned(&rig, 0); /* its thread, too */
	rig.plugin->turns[23].until_ns = clock_now_ns();
	accept_begin(&at[2], RIG_GUARD_NS);
	accept_end(&at[2]);
	rig_due(at[0].setup);
	assert_int_equal(net_setup_wait(at[0].setup, &result), TCPX_ERR_TIMED_OUT);
	assert_said("accept: not finished in time: its call has not returned for ");
	rig_let(&rig.fake->hangs);
	rig_until_abandoned(&rig, 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(rig_close_one(&at[2].opts, at[i].send), TCPX_OK);
	rig_end(&rig);
}

/* It loses its turn by itself, after half of the time that its accept had. */
static void accept_hangs_half(void **state)
{
	struct net_setup_result result;
	struct accepting at[2];
	struct rig rig;

	(void)state;
	rig_open(&rig, RIG_FAKE("v8"));
	for (unsigned i = 0; i < 2; i++)
		accept_prepare(&rig, 24, i, &at[i]);
	rig.fake->hangs = rig.fake->hangs_next = 1;
	accept_begin(&at[0], 8 * RIG_SHORT_NS);
	rig_until(&rig.fake->in_accept, 1);
	accept_begin(&at[1], RIG_GUARD_NS);
	accept_end(&at[1]);
	assert_int_equal(net_setup_wait(at[0].setup, &result), TCPX_ERR_TIMED_OUT);
	rig_let(&rig.fake->hangs);
	rig_until_abandoned(&rig, 0);
	assert_int_equal(rig_close_one(&at[1].opts, at[0].send), TCPX_OK);
	rig_end(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepts_one_by_one),
		cmocka_unit_test(accepts_of_two_gpus),
		cmocka_unit_test(accept_hangs),
		cmocka_unit_test(accept_hangs_half),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
