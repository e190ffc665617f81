/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a fake plugin, and makes comms of it. Deadlines are hang guards, unless a test is of
 * one. */
#ifndef TESTS_NCCLNET_RIG_H
#define TESTS_NCCLNET_RIG_H

#include "unit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "fake_net.h"
#include "plugin/comm.h"
#include "plugin/image.h"
#include "plugin/setup_priv.h"
#include "plugin/setup.h"
#include "sys/futex.h"

#define RIG_GUARD_NS (30 * CLOCK_S_NS)
#define RIG_SHORT_NS (50 * CLOCK_MS_NS)
#define RIG_WINDOW 12
#define RIG_FAKE(name) FAKE_NET name ".so"

struct rig {
	struct net_plugin *plugin;
	struct fake_net *fake;
	struct net_comm *send, *recv;
	struct net_mr *send_mr, *recv_mr;
	char out[1 << 16], in[1 << 16];
};

static inline struct fake_net *rig_control(const char *path)
{
	void *dl = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	struct fake_net *fake = dl ? dlsym(dl, "fake_net") : NULL;

	assert_non_null(fake);
	dlclose(dl); /* our loader has its own */
	return fake;
}

static inline tcpx_status rig_get(const char *path, int64_t timeout_ns,
				  struct net_plugin **out_plugin)
{
	return net_plugin_get(&(struct net_plugin_opts){.path = path, .timeout_ns = timeout_ns},
			      out_plugin);
}

static inline void rig_open(struct rig *rig, const char *path)
{
	memset(rig, 0, sizeof(*rig));
	assert_int_equal(rig_get(path, RIG_GUARD_NS, &rig->plugin), TCPX_OK);
	rig->fake = rig_control(path);
}

static inline struct net_setup_opts rig_opts(const struct rig *rig, int64_t ns)
{
	return (struct net_setup_opts){.plugin = rig->plugin,
				       .gpu = -1,
				       .deadline_ns = clock_after(ns),
				       .channel = 3,
				       .peer = "rank1",
				       .window = RIG_WINDOW};
}

static inline struct net_listener *rig_listen(const struct net_setup_opts *opts)
{
	struct net_setup_result result;
	struct net_setup *setup;

	assert_int_equal(net_listen_start(opts, &setup), TCPX_OK);
	assert_int_equal(net_setup_wait(setup, &result), TCPX_OK);
	return result.listener;
}

/* Both ends of a wire, set up at the same time. */
static inline void rig_pair(struct rig *rig, const struct net_setup_opts *opts)
{
	struct net_listener *listener = rig_listen(opts);
	struct net_setup *connect, *accept;
	struct net_setup_result result;

	assert_int_equal(net_connect_start(opts, net_listener_handle(listener), &connect), TCPX_OK);
	assert_int_equal(net_accept_start(opts, listener, &accept), TCPX_OK);
	assert_int_equal(net_setup_wait(connect, &result), TCPX_OK);
	rig->send = result.comm;
	assert_int_equal(net_setup_wait(accept, &result), TCPX_OK);
	rig->recv = result.comm;
}

static inline struct net_mr *rig_register(const struct net_setup_opts *opts, struct net_comm *comm,
					  void *base, uint64_t bytes, int type)
{
	struct net_setup_result result;
	struct net_setup *setup;

	assert_int_equal(net_register_start(opts, comm, base, bytes, type, &setup), TCPX_OK);
	assert_int_equal(net_setup_wait(setup, &result), TCPX_OK);
	return result.mr;
}

static inline void rig_comms(struct rig *rig, const char *path)
{
	struct net_setup_opts opts;

	rig_open(rig, path);
	opts = rig_opts(rig, RIG_GUARD_NS);
	rig_pair(rig, &opts);
	rig->send_mr = rig_register(&opts, rig->send, rig->out, sizeof(rig->out), NCCLNET_PTR_HOST);
	rig->recv_mr = rig_register(&opts, rig->recv, rig->in, sizeof(rig->in), NCCLNET_PTR_HOST);
}

static inline tcpx_status rig_close_one(const struct net_setup_opts *opts, struct net_comm *comm)
{
	struct net_setup *setup;

	assert_int_equal(net_close_start(opts, comm, &setup), TCPX_OK);
	return net_setup_wait(setup, NULL);
}

/* Closes what is open; the plugin noticed nothing wrong, and has nothing any more. */
static inline void rig_end(struct rig *rig)
{
	struct net_setup_opts opts = rig_opts(rig, RIG_GUARD_NS);

	if (rig->send)
		assert_int_equal(rig_close_one(&opts, rig->send), TCPX_OK);
	if (rig->recv)
		assert_int_equal(rig_close_one(&opts, rig->recv), TCPX_OK);
	assert_int_equal(rig->fake->sends_open, 0);
	assert_int_equal(rig->fake->recvs_open, 0);
	assert_int_equal(rig->fake->regs, rig->fake->deregs);
	assert_int_equal(rig->fake->violations, 0);
	assert_int_equal(rig->fake->unmasked, 0);
	assert_int_equal(rig->fake->wrong_gpu, 0);
	net_plugin_put(rig->plugin);
}

static inline struct net_plugin_info rig_info(const struct rig *rig)
{
	struct net_plugin_info info;

	net_plugin_describe(rig->plugin, &info);
	return info;
}

/* Who is held up by the word goes on. */
static inline void rig_let(atomic_int *word)
{
	atomic_store(word, 0);
	sys_futex_wake((_Atomic uint32_t *)word, INT_MAX);
}

/* Until the word has the value; a hang is the test runner's. */
static inline void rig_until(atomic_int *word, int value)
{
	while (atomic_load(word) != value)
		sched_yield();
}

/* The time of an operation that is in the plugin now is over: not sooner, when its thread may not
 * have come so far. */
static inline void rig_due(struct net_setup *setup)
{
	setup->opts.deadline_ns = clock_now_ns();
}

static inline void rig_until_abandoned(const struct rig *rig, unsigned count)
{
	net_plugin_wait(rig->plugin, count);
}

#define assert_said(text) assert_non_null(strstr(error_last()->what, text))

#endif
