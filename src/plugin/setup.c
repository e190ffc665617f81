/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that run on threads of their own: how they start, end and are abandoned. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "plugin/setup_priv.h"
#include "sys/cpu.h"

#define LATE_LINES 1u /* most log lines in 10 s about abandoned operations that failed */

void net_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int net_cond_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns)
{
	struct timespec ts = {.tv_sec = deadline_ns / CLOCK_S_NS,
			      .tv_nsec = deadline_ns % CLOCK_S_NS};

	return pthread_cond_timedwait(cond, lock, &ts) == ETIMEDOUT ? -1 : 0;
}

struct net_setup *net_setup_new(const struct net_setup_opts *opts, const char *stage,
				tcpx_status (*body)(struct net_setup *setup),
				void (*undo)(struct net_setup *setup))
{
	struct net_setup *setup = calloc(1, sizeof(*setup));

	if (!setup) {
		(void)error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for the plugin operation %s",
				stage);
		return NULL;
	}
	setup->opts = *opts;
	setup->stage = stage;
	setup->body = body;
	setup->undo = undo;
	setup->warned = net_plugin_warnings(opts->plugin);
	list_init(&setup->node);
	pthread_mutex_init(&setup->lock, NULL);
	net_cond_init(&setup->changed);
	return setup;
}

void net_setup_free(struct net_setup *setup)
{
	pthread_cond_destroy(&setup->changed);
	pthread_mutex_destroy(&setup->lock);
	free(setup);
}

/* Keeps the memory of an operation until its thread returns, or for good if the operation leaks,
 * because the plugin may still write to that memory. The operation is put into the list `lost`,
 * where leak checkers find it. */
static void setup_keep(struct net_setup *setup)
{
	struct net_plugin *plugin = setup->opts.plugin;

	pthread_mutex_lock(&plugin->lost_lock);
	list_push_back(&plugin->lost, &setup->node);
	pthread_mutex_unlock(&plugin->lost_lock);
}

static void setup_unkeep(struct net_setup *setup)
{
	struct net_plugin *plugin = setup->opts.plugin;

	pthread_mutex_lock(&plugin->lost_lock);
	list_remove(&setup->node);
	pthread_mutex_unlock(&plugin->lost_lock);
}

static void count_abandoned(struct net_plugin *plugin, int more)
{
	pthread_mutex_lock(&plugin->lost_lock);
	atomic_fetch_add_explicit(&plugin->abandoned, (unsigned)more, memory_order_release);
	pthread_cond_broadcast(&plugin->lost_other);
	pthread_mutex_unlock(&plugin->lost_lock);
}

/* Ends an operation whose `body` has returned and whose result was taken or closed. Frees the
 * operation, or keeps its memory if it leaks. */
static void setup_end(struct net_setup *setup)
{
	if (!setup->leaks) {
		net_setup_free(setup);
		return;
	}
	atomic_fetch_add_explicit(&setup->opts.plugin->leaked, 1, memory_order_relaxed);
	setup_keep(setup);
}

/* Closes the result of an abandoned operation whose `body` has returned, and ends the operation.
 * Runs on a thread that may block. The count of abandoned operations is decremented last, so that a
 * reader that sees 0 also sees what leaked. */
static void setup_discard(struct net_setup *setup)
{
	struct net_plugin *plugin = setup->opts.plugin;

	if (!setup->status && setup->undo)
		setup->undo(setup);
	/* The error is logged although no caller waits for it. A failed setup fails at both ends,
	 * and only the end that fails later may know the cause. */
	if (setup->status && setup->status != TCPX_ERR_TIMED_OUT &&
	    log_allow(&plugin->late_log, LATE_LINES))
		LOG_WARN("%s", setup->error.what);
	setup_unkeep(setup);
	setup_end(setup);
	count_abandoned(plugin, -1);
}

static void *setup_main(void *arg)
{
	struct net_setup *setup = arg;
	tcpx_status status = setup->body(setup);
	int abandoned;

	pthread_mutex_lock(&setup->lock);
	setup->status = status;
	if (status)
		setup->error = *error_last();
	abandoned = setup->state == NET_SETUP_ABANDONED;
	if (!abandoned) {
		setup->state = NET_SETUP_ENDED;
		pthread_cond_broadcast(&setup->changed);
		if (setup->opts.ended)
			setup->opts.ended(setup->opts.ended_arg);
	}
	pthread_mutex_unlock(&setup->lock);
	if (abandoned)
		setup_discard(setup);
	return NULL;
}

static void *discard_main(void *arg)
{
	setup_discard(arg);
	return NULL;
}

tcpx_status net_setup_run(struct net_setup *setup, struct net_setup **out_setup)
{
	pthread_t thread;
	/* The operation may end and call opts.ended before sys_thread_start returns. */
	tcpx_status status = sys_thread_start(&thread, "tcpx-plugin", setup_main, setup);

	if (status) {
		net_setup_free(setup);
		return status;
	}
	pthread_detach(thread);
	*out_setup = setup;
	return TCPX_OK;
}

int net_setup_over(struct net_setup *setup)
{
	int over = clock_now_ns() >= setup->opts.deadline_ns;

	pthread_mutex_lock(&setup->lock);
	over |= setup->state == NET_SETUP_ABANDONED;
	pthread_mutex_unlock(&setup->lock);
	return over;
}

static tcpx_status setup_fail(struct net_setup *setup, tcpx_status status, const char *why)
{
	const struct net_setup_opts *opts = &setup->opts;
	const struct net_plugin_device *device = NULL; /* stays NULL for dlopen and init */
	char said[NET_PLUGIN_LINE_BYTES];

	if (opts->dev < NET_PLUGIN_DEVICES)
		device = net_plugin_device(opts->plugin, opts->dev);
	net_plugin_said(opts->plugin, setup->warned, said, sizeof(said));
	if (!device)
		return error_set(status, 0, "%s of %s: %s%s", setup->stage, opts->plugin->log.file,
				 why, said);
	return error_set(status, 0, "channel %u, NIC %s, peer %s: %s: %s%s%s", opts->channel,
			 device->name, opts->peer, setup->stage, why, opts->where, said);
}

tcpx_status net_setup_refused(struct net_setup *setup, ncclnet_result rc)
{
	return setup_fail(setup, TCPX_ERR_CHANNEL_LOST, net_plugin_result(rc));
}

tcpx_status net_setup_late(struct net_setup *setup)
{
	char why[200];

	net_gpu_state(setup, "not finished in time", why, sizeof(why));
	return setup_fail(setup, TCPX_ERR_TIMED_OUT, why);
}

/* Marks the operation as abandoned, and keeps its memory. Called under setup->lock. */
static void setup_leave(struct net_setup *setup)
{
	setup->state = NET_SETUP_ABANDONED;
	count_abandoned(setup->opts.plugin, 1);
	setup_keep(setup);
}

tcpx_status net_setup_finish(struct net_setup *setup, struct net_setup_result *out_result)
{
	tcpx_status status;

	pthread_mutex_lock(&setup->lock);
	if (setup->state == NET_SETUP_RUNNING) {
		status = TCPX_IN_PROGRESS;
		if (clock_now_ns() >= setup->opts.deadline_ns) {
			status = net_setup_late(setup);
			setup_leave(setup);
		}
		pthread_mutex_unlock(&setup->lock);
		return status;
	}
	pthread_mutex_unlock(&setup->lock);
	status = setup->status;
	if (status)
		(void)error_raise(&setup->error);
	else if (out_result)
		*out_result = setup->result;
	setup_end(setup);
	return status;
}

tcpx_status net_setup_wait(struct net_setup *setup, struct net_setup_result *out_result)
{
	pthread_mutex_lock(&setup->lock);
	while (setup->state == NET_SETUP_RUNNING)
		if (net_cond_until(&setup->changed, &setup->lock, setup->opts.deadline_ns))
			break;
	pthread_mutex_unlock(&setup->lock);
	return net_setup_finish(setup, out_result);
}

void net_setup_abandon(struct net_setup *setup)
{
	int running;
	pthread_t thread;

	pthread_mutex_lock(&setup->lock);
	running = setup->state == NET_SETUP_RUNNING;
	setup_leave(setup);
	pthread_mutex_unlock(&setup->lock);
	/* If no thread can be started, the result stays open, and the operation stays counted as
	 * abandoned. */
	if (!running && !sys_thread_start(&thread, "tcpx-plugin", discard_main, setup))
		pthread_detach(thread);
}
