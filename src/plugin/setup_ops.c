/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that make and close comms: listen, connect, accept, close. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "plugin/setup_priv.h"

/* Pause after a connect or accept that returned no comm, doubled each time until it is at least
 * RETRY_MAX_NS. No event tells when to call again. */
#define RETRY_FIRST_NS 100000
#define RETRY_MAX_NS 5000000

tcpx_status net_opts_check(const struct net_setup_opts *opts)
{
	unsigned stuck = atomic_load_explicit(&opts->plugin->abandoned, memory_order_relaxed);

	if (stuck >= NET_SETUPS_ABANDONED_MAX) {
		(void)error_set(TCPX_ERR_LIMIT, 0, "%u calls of %s have not returned", stuck,
				opts->plugin->log.file);
		return error_next("restart the process if they never return");
	}
	if (!net_plugin_device(opts->plugin, opts->dev))
		return error_set(TCPX_ERR_INVALID, 0, "%s has no device %u", opts->plugin->log.file,
				 opts->dev);
	if (opts->gpu >= NET_PLUGIN_GPUS || (opts->gpu >= 0 && !opts->gpu_ops))
		return error_set(TCPX_ERR_INVALID, 0, "GPU %d cannot be made current for %s",
				 opts->gpu, opts->plugin->log.file);
	return TCPX_OK;
}

static void comm_free(struct net_comm *comm)
{
	pthread_cond_destroy(&comm->idle);
	pthread_mutex_destroy(&comm->lock);
	free(comm);
}

static struct net_comm *comm_new(const struct net_setup_opts *opts, bool sends)
{
	struct net_comm *comm;

	if (opts->window < 1 || opts->window > NET_COMM_WINDOW) {
		(void)error_set(TCPX_ERR_INVALID, 0, "window of %u requests; 1 to %d are valid",
				opts->window, NET_COMM_WINDOW);
		return NULL;
	}
	comm = calloc(1, sizeof(*comm));
	if (!comm) {
		(void)error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a comm of a plugin");
		return NULL;
	}
	comm->plugin = opts->plugin;
	comm->calls = opts->plugin->adapter;
	comm->table = opts->plugin->table;
	comm->sends = sends;
	comm->window = opts->window;
	comm->dev = opts->dev;
	comm->channel = opts->channel;
	snprintf(comm->peer, sizeof(comm->peer), "%s", opts->peer);
	comm->warned = net_plugin_warnings(opts->plugin);
	pthread_mutex_init(&comm->lock, NULL);
	net_cond_init(&comm->idle);
	list_init(&comm->mrs);
	return comm;
}

/* Calls the plugin's connect once. If it returns 0 and sets no comm, the caller must call again. */
static ncclnet_result call_connect(struct net_setup *setup)
{
	struct net_comm *comm = setup->comm;
	struct ncclnet_device_handle *device = (void *)comm->storage;

	return comm->calls->connect(comm->table, comm->plugin->context, (int)comm->dev,
				    comm->handle, &comm->comm, &device);
}

/* Calls the plugin's accept once. If it returns 0 and sets no comm, the caller must call again. */
static ncclnet_result call_accept(struct net_setup *setup)
{
	struct net_comm *comm = setup->comm;
	struct ncclnet_device_handle *device = (void *)comm->storage;
	ncclnet_result rc =
		comm->calls->take(comm->table, setup->listener->listener, &comm->comm, &device);

	if (!rc && comm->comm)
		net_gpu_ready(setup);
	if (!rc && comm->comm && device)
		comm->device = *device;
	return rc;
}

/* Repeats `call` until `call` returns a comm or an error, the deadline passes, or the operation is
 * abandoned. If the last call returned neither a comm nor an error, sets setup->leaks, because the
 * plugin still works on the connection. */
static tcpx_status retry_until_comm(struct net_setup *setup,
				    ncclnet_result (*call)(struct net_setup *))
{
	struct timespec pause = {0, RETRY_FIRST_NS};
	struct net_gpu_scope scope;
	ncclnet_result rc;
	tcpx_status status;

	for (;;) {
		status = net_gpu_enter(setup, &scope);
		if (status) {
			setup->leaks = pause.tv_nsec > RETRY_FIRST_NS;
			return status;
		}
		rc = call(setup);
		net_gpu_leave(setup, &scope);
		if (rc)
			return net_setup_refused(setup, rc);
		if (setup->comm->comm)
			break;
		if (net_setup_over(setup)) {
			setup->leaks = true;
			return net_setup_late(setup);
		}
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < RETRY_MAX_NS)
			pause.tv_nsec *= 2;
	}
	setup->result.comm = setup->comm;
	return TCPX_OK;
}

void net_setup_warn(struct net_setup *setup, const char *call, ncclnet_result rc)
{
	if (rc)
		LOG_WARN("%s: %s returned %s", setup->opts.plugin->log.file, call,
			 net_plugin_result(rc));
}

/* Closes and frees the listener of the operation. Returns the plugin's result. If the GPU cannot be
 * made current, returns NCCLNET_ERR_CUDA and keeps the listener. */
static ncclnet_result listener_close(struct net_setup *setup)
{
	struct net_plugin *plugin = setup->opts.plugin;
	struct net_listener *listener = setup->listener;
	struct net_gpu_scope scope;
	ncclnet_result rc;

	if (net_gpu_enter(setup, &scope))
		return NCCLNET_ERR_CUDA;
	rc = plugin->adapter->close_listen(plugin->table, listener->listener);
	net_gpu_leave(setup, &scope);
	net_setup_warn(setup, "closeListen", rc);
	free(listener);
	setup->listener = NULL;
	return rc;
}

static tcpx_status listen_body(struct net_setup *setup)
{
	struct net_plugin *plugin = setup->opts.plugin;
	struct net_listener *listener = setup->listener;
	struct net_gpu_scope scope;
	ncclnet_result rc;
	tcpx_status status = net_gpu_enter(setup, &scope);

	if (!status) {
		rc = plugin->adapter->listen(plugin->table, plugin->context, (int)setup->opts.dev,
					     listener->handle, &listener->listener);
		net_gpu_leave(setup, &scope);
		if (!rc && !listener->listener)
			rc = NCCLNET_ERR_INTERNAL;
		status = rc ? net_setup_refused(setup, rc) : TCPX_OK;
	}
	if (status) {
		free(listener);
		return status;
	}
	setup->result.listener = listener;
	return TCPX_OK;
}

static void listen_undo(struct net_setup *setup)
{
	(void)listener_close(setup);
}

tcpx_status net_listen_start(const struct net_setup_opts *opts, struct net_setup **out_setup)
{
	struct net_setup *setup;
	struct net_listener *listener;
	tcpx_status status = net_opts_check(opts);

	if (status)
		return status;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a listener of a plugin");
	setup = net_setup_new(opts, "listen", listen_body, listen_undo);
	if (setup) {
		listener->plugin = opts->plugin;
		setup->listener = listener;
		status = net_setup_run(setup, out_setup);
	}
	if (!setup || status) {
		free(listener);
		return error_last()->status;
	}
	return TCPX_OK;
}

const uint8_t *net_listener_handle(const struct net_listener *listener)
{
	return listener->handle;
}

static tcpx_status unlisten_body(struct net_setup *setup)
{
	ncclnet_result rc = listener_close(setup);

	return rc ? net_setup_refused(setup, rc) : TCPX_OK;
}

tcpx_status net_unlisten_start(const struct net_setup_opts *opts, struct net_listener *listener,
			       struct net_setup **out_setup)
{
	struct net_setup *setup = net_setup_new(opts, "closeListen", unlisten_body, NULL);

	if (!setup)
		return error_last()->status;
	setup->listener = listener;
	return net_setup_run(setup, out_setup);
}

/* Consumes the received messages that are done, in order, because nobody reads them any more. Their
 * pages are then free again. */
static void consume_rest(struct net_comm *comm)
{
	struct net_comm_counts *counts = &comm->counts;
	ncclnet_result rc = NCCLNET_OK;

	while (!comm->sends && !comm->failed.status && !rc && counts->consumed < counts->done) {
		void *request = comm->ring[counts->consumed % NET_COMM_WINDOW].request;

		rc = comm->calls->consumed(comm->table, comm->comm, request);
		counts->consumed++;
	}
}

/* Waits until no other operation uses the comm. Returns ERR_TIMED_OUT if one still does at the
 * deadline, such as a registration that is stuck in the plugin. Then setup->leaks is set: the comm
 * is not closed, and its memory stays allocated. */
static tcpx_status comm_alone(struct net_setup *setup)
{
	struct net_comm *comm = setup->comm;
	int late = 0;

	pthread_mutex_lock(&comm->lock);
	while (comm->users && !late)
		late = net_cond_until(&comm->idle, &comm->lock, setup->opts.deadline_ns);
	setup->leaks = comm->users > 0;
	pthread_mutex_unlock(&comm->lock);
	return setup->leaks ? net_setup_late(setup) : TCPX_OK;
}

/* Drops all registrations of the comm. Returns the first error. */
static tcpx_status drop_all(struct net_setup *setup)
{
	struct net_comm *comm = setup->comm;
	tcpx_status status = TCPX_OK, each;
	struct list_node *node;

	while ((node = list_pop_front(&comm->mrs)) != NULL) {
		each = net_mr_drop(setup, LIST_ENTRY(node, struct net_mr, node));
		status = status ? status : each;
	}
	return status;
}

/* Whether the registrations are dropped after the comm is closed: with TCPX, while messages are
 * under way, because TCPX's own threads use registrations until close has joined these threads.
 * Otherwise they are dropped before, as NCCL does. TCPX's deregMr does not use the comm, so it may
 * be called after close. */
static int drops_last(const struct net_comm *comm)
{
	return comm->counts.posted != comm->counts.done &&
	       comm->plugin->devices[comm->dev].device_type == NCCLNET_DEVICE_UNPACK;
}

/* Closes a comm: waits until no operation uses it and consumes the messages that are done. Then
 * drops the registrations and calls the plugin's close, in the order that drops_last() says, and
 * frees the comm. If the comm cannot be closed in time, its memory stays allocated
 * (setup->leaks). */
static tcpx_status comm_shut(struct net_setup *setup)
{
	struct net_comm *comm = setup->comm;
	tcpx_status status = comm_alone(setup);
	int last = drops_last(comm);
	struct net_gpu_scope scope;
	ncclnet_result rc;

	if (status)
		return status;
	consume_rest(comm);
	if (!last)
		status = drop_all(setup);
	if (net_gpu_enter(setup, &scope)) {
		setup->leaks = true; /* the plugin may use the comm for ever */
		return error_set(TCPX_ERR_TIMED_OUT, 0, "close: %s", error_last()->what);
	}
	rc = comm->sends ? comm->calls->close_send(comm->table, comm->comm)
			 : comm->calls->close_recv(comm->table, comm->comm);
	net_gpu_leave(setup, &scope);
	net_setup_warn(setup, comm->sends ? "closeSend" : "closeRecv", rc);
	if (last)
		status = drop_all(setup);
	if (!status && rc)
		status = net_setup_refused(setup, rc);
	comm_free(comm);
	return status;
}

static void comm_undo(struct net_setup *setup)
{
	(void)comm_shut(setup);
}

static tcpx_status connect_body(struct net_setup *setup)
{
	tcpx_status status = retry_until_comm(setup, call_connect);

	if (status && !setup->leaks)
		comm_free(setup->comm);
	return status;
}

/* Starts an operation that makes a comm: a connect if `handle` is not NULL, otherwise an accept on
 * `listener`. */
static tcpx_status comm_start(const struct net_setup_opts *opts, const char *name,
			      tcpx_status (*body)(struct net_setup *setup), const uint8_t *handle,
			      struct net_listener *listener, struct net_setup **out_setup)
{
	struct net_setup *setup;
	struct net_comm *comm;
	tcpx_status status = net_opts_check(opts);

	if (status)
		return status;
	comm = comm_new(opts, handle != NULL);
	if (!comm)
		return error_last()->status;
	if (handle)
		memcpy(comm->handle, handle, sizeof(comm->handle));
	setup = net_setup_new(opts, name, body, comm_undo);
	if (setup) {
		setup->comm = comm;
		setup->listener = listener;
		setup->makes_pool = listener != NULL;
		status = net_setup_run(setup, out_setup);
	}
	if (!setup || status) {
		comm_free(comm);
		return error_last()->status;
	}
	return TCPX_OK;
}

tcpx_status net_connect_start(const struct net_setup_opts *opts,
			      const uint8_t handle[NCCLNET_HANDLE_BYTES],
			      struct net_setup **out_setup)
{
	return comm_start(opts, "connect", connect_body, handle, NULL, out_setup);
}

/* Accepts a comm, and closes the listener. The listener stays open if the operation gave up between
 * two calls of accept (setup->leaks). */
static tcpx_status accept_body(struct net_setup *setup)
{
	tcpx_status status = retry_until_comm(setup, call_accept);
	tcpx_error error = *error_last();

	if (setup->leaks)
		return status;
	/* closeListen makes no pool, so it may run without a turn. If makes_pool stayed set,
	 * listener_close() would fail after the deadline. */
	setup->makes_pool = false;
	(void)listener_close(setup);
	if (!status)
		return TCPX_OK;
	comm_free(setup->comm);
	return error_raise(&error);
}

tcpx_status net_accept_start(const struct net_setup_opts *opts, struct net_listener *listener,
			     struct net_setup **out_setup)
{
	return comm_start(opts, "accept", accept_body, NULL, listener, out_setup);
}

tcpx_status net_close_start(const struct net_setup_opts *opts, struct net_comm *comm,
			    struct net_setup **out_setup)
{
	struct net_setup *setup = net_setup_new(opts, "close", comm_shut, NULL);

	if (!setup)
		return error_last()->status;
	setup->comm = comm;
	return net_setup_run(setup, out_setup);
}
