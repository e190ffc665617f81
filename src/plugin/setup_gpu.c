/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a GPU current around calls of a plugin, and lets these calls run one at a time until the
 * GPU is ready.
 *
 * A TCPX plugin makes a GPU's page pool (its bounce pages) in the accept call that returns a comm,
 * on the caller's thread and without a lock. Two such calls with one GPU at the same time unmap
 * each other's pages. No other call makes the pool. So a GPU is ready when an accept with it has
 * returned a comm, and not before.
 *
 * Which of the accept calls of an operation will return the comm is not known in advance. So each
 * call takes a turn and gives it back at its end, and no turn is held between two calls. A call
 * that does not return loses its turn after half of the time that its operation had left, so that
 * the GPU's other channels can continue. docs/design/ncclnet.md says why two processes never wait
 * for each other in a circle.
 */
#include <stdio.h>

#include "base/clock.h"
#include "plugin/setup_priv.h"

/* Longest wait for the turn by a call that makes no pool. The wait is limited because the holder of
 * the turn may be an accept that blocks until another process connects, and that process may itself
 * wait for a connect of this process. */
#define OTHERS_WAIT_NS (500 * CLOCK_MS_NS)

static int64_t sooner_ns(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Returns the GPU with which this operation calls the plugin, or -1 if there is none. If the
 * options name no GPU, but the device is of the type with a page pool (UNPACK), returns 0, the GPU
 * that is current on a new thread. Until the GPU is ready, calls with it take turns (see the top of
 * the file). */
static int pool_gpu(const struct net_setup *setup)
{
	const struct net_setup_opts *opts = &setup->opts;
	const struct net_plugin_device *device;

	if (opts->gpu >= 0)
		return opts->gpu;
	device = net_plugin_device(opts->plugin, opts->dev);
	return device && device->device_type == NCCLNET_DEVICE_UNPACK ? 0 : -1;
}

static bool gpu_ready(const struct net_plugin *plugin, int gpu)
{
	return gpu < 0 ||
	       atomic_load_explicit(&plugin->gpus_ready, memory_order_acquire) >> gpu & 1;
}

/* Waits until the turn is free, its holder counts as stuck, the GPU is ready, or the operation may
 * wait no longer. Returns the current time. Called under first_lock. */
static int64_t turn_wait(struct net_setup *setup, int gpu)
{
	struct net_plugin *plugin = setup->opts.plugin;
	const struct net_gpu_turn *turn = &plugin->turns[gpu];
	int64_t now_ns = clock_now_ns(), end_ns = setup->opts.deadline_ns;

	if (!setup->makes_pool)
		end_ns = sooner_ns(end_ns, now_ns + OTHERS_WAIT_NS);
	while (turn->holder && !gpu_ready(plugin, gpu) && now_ns < end_ns &&
	       now_ns < turn->until_ns) {
		(void)net_cond_until(&plugin->first_free, &plugin->first_lock,
				     sooner_ns(end_ns, turn->until_ns));
		now_ns = clock_now_ns();
	}
	return now_ns;
}

/* Takes the turn with the operation's GPU before a call of the plugin, unless the GPU is ready.
 * Returns ERR_TIMED_OUT if an accept does not get the turn before its deadline. Other operations
 * continue without the turn after OTHERS_WAIT_NS. */
static tcpx_status turn_take(struct net_setup *setup, struct net_gpu_scope *scope)
{
	struct net_plugin *plugin = setup->opts.plugin;
	int gpu = pool_gpu(setup);
	struct net_gpu_turn *turn;
	int64_t now_ns, stuck_ns = 0;

	if (gpu_ready(plugin, gpu))
		return TCPX_OK;
	turn = &plugin->turns[gpu];
	pthread_mutex_lock(&plugin->first_lock);
	atomic_store_explicit(&setup->waits, true, memory_order_relaxed);
	now_ns = turn_wait(setup, gpu);
	scope->turn = !gpu_ready(plugin, gpu) && now_ns < setup->opts.deadline_ns &&
		      (!turn->holder || now_ns >= turn->until_ns);
	if (scope->turn && turn->holder)
		stuck_ns = now_ns - turn->since_ns;
	if (scope->turn)
		*turn = (struct net_gpu_turn){setup, now_ns,
					      now_ns + (setup->opts.deadline_ns - now_ns) / 2};
	pthread_mutex_unlock(&plugin->first_lock);
	if (stuck_ns)
		LOG_WARN("%s: a call with GPU %d has not returned for %lld ms: channel %u's %s "
			 "no longer waits for it",
			 plugin->log.file, gpu, (long long)(stuck_ns / CLOCK_MS_NS),
			 setup->opts.channel, setup->stage);
	if (setup->makes_pool && !scope->turn && !gpu_ready(plugin, gpu))
		return net_setup_late(setup);
	atomic_store_explicit(&setup->waits, false, memory_order_relaxed);
	return TCPX_OK;
}

static void turn_give(struct net_setup *setup, struct net_gpu_scope *scope)
{
	struct net_plugin *plugin = setup->opts.plugin;
	struct net_gpu_turn *turn;

	if (!scope->turn)
		return;
	turn = &plugin->turns[pool_gpu(setup)];
	pthread_mutex_lock(&plugin->first_lock);
	/* If this operation counted as stuck, another one may have taken the turn. */
	if (turn->holder == setup)
		turn->holder = NULL;
	pthread_cond_broadcast(&plugin->first_free);
	pthread_mutex_unlock(&plugin->first_lock);
	scope->turn = false;
}

tcpx_status net_gpu_enter(struct net_setup *setup, struct net_gpu_scope *out_scope)
{
	const struct net_setup_opts *opts = &setup->opts;
	tcpx_status status;

	*out_scope = (struct net_gpu_scope){NULL};
	status = turn_take(setup, out_scope);
	if (status == TCPX_OK && opts->gpu >= 0) {
		status = opts->gpu_ops->enter(opts->gpu_arg, opts->gpu, &out_scope->before);
		out_scope->entered = status == TCPX_OK;
	}
	if (status != TCPX_OK)
		turn_give(setup, out_scope);
	else
		atomic_store_explicit(&setup->called_ns, clock_now_ns(), memory_order_relaxed);
	return status;
}

void net_gpu_leave(struct net_setup *setup, struct net_gpu_scope *scope)
{
	atomic_store_explicit(&setup->called_ns, 0, memory_order_relaxed);
	if (scope->entered)
		setup->opts.gpu_ops->leave(setup->opts.gpu_arg, setup->opts.gpu, scope->before);
	turn_give(setup, scope);
}

void net_gpu_ready(struct net_setup *setup)
{
	int gpu = pool_gpu(setup);

	if (gpu >= 0)
		atomic_fetch_or_explicit(&setup->opts.plugin->gpus_ready, 1ull << gpu,
					 memory_order_release);
}

/* Writes which operation has the turn for which `setup` waits. Called under first_lock. */
static void turn_state(const struct net_setup *setup, int gpu, char *out, size_t size)
{
	const struct net_gpu_turn *turn = &setup->opts.plugin->turns[gpu];

	if (turn->holder)
		snprintf(out, size,
			 "it waits for channel %u's %s, which has been in the plugin with GPU %d "
			 "for %lld ms",
			 turn->holder->opts.channel, turn->holder->stage, gpu,
			 (long long)((clock_now_ns() - turn->since_ns) / CLOCK_MS_NS));
	else
		snprintf(out, size, "it waits for its turn with GPU %d", gpu);
}

void net_gpu_state(struct net_setup *setup, const char *what, char *out, size_t size)
{
	struct net_plugin *plugin = setup->opts.plugin;
	int64_t called_ns = atomic_load_explicit(&setup->called_ns, memory_order_relaxed);
	const char *lacks = atomic_load_explicit(&setup->lacks, memory_order_acquire);
	char state[160] = "";

	if (atomic_load_explicit(&setup->waits, memory_order_relaxed)) {
		pthread_mutex_lock(&plugin->first_lock);
		turn_state(setup, pool_gpu(setup), state, sizeof(state));
		pthread_mutex_unlock(&plugin->first_lock);
	} else if (called_ns) {
		snprintf(state, sizeof(state), "its call has not returned for %lld ms",
			 (long long)((clock_now_ns() - called_ns) / CLOCK_MS_NS));
	}
	if (!*state && lacks)
		snprintf(state, sizeof(state), "%s for %lld ms", lacks,
			 (long long)((clock_now_ns() - setup->lacks_ns) / CLOCK_MS_NS));
	snprintf(out, size, "%s%s%s", what, *state ? ": " : "", state);
}
