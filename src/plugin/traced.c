/* SPDX-License-Identifier: Apache-2.0 */
/* An adapter that records the library's calls into a plugin, and passes them to the adapter of the
 * plugin's version. */
#include "plugin/traced.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/config.h"
#include "base/error.h"
#include "plugin/priv.h"
#include "trace/observe.h"
#include "trace/start.h"

/* The recording adapter of one plugin. Its address is also the `table` argument of its functions,
 * which pass their calls on to `real` with the member `table`. Never freed. */
struct traced {
	struct net_adapter adapter;
	const struct net_adapter *real;
	const void *table;
	const struct net_plugin *plugin;
};

#define TRACED(opaque) ((const struct traced *)(opaque))
#define REAL(opaque, member, ...) TRACED(opaque)->real->member(TRACED(opaque)->table, ##__VA_ARGS__)

static const char *traced_missing(const void *table)
{
	return REAL(table, missing);
}

static const char *traced_name(const void *table)
{
	return REAL(table, name);
}

static void note_plugin(const struct traced *traced)
{
	const char *name = traced->real->name(traced->table);

	trace_recorder_note("plugin.path", "%s", traced->plugin->resolved);
	trace_recorder_note("plugin.name", "%s", name ? name : "");
	trace_recorder_note("plugin.version", "%d", traced->real->version);
	trace_recorder_note("plugin.consumed", "%d", traced->real->has_consumed(traced->table));
}

static ncclnet_result traced_init(const void *table, ncclnet_logger logger, void **out_context)
{
	struct trace_span span;
	char why[300] = "";
	ncclnet_result rc;

	if (trace_start(why, sizeof(why)))
		note_plugin(TRACED(table));
	else
		LOG_WARN("no trace of the plugin's calls: %s", why);
	trace_begin(&span, TRACE_INIT, NULL);
	rc = REAL(table, init, logger, out_context);
	trace_ended(&span, rc);
	return rc;
}

static ncclnet_result traced_devices(const void *table, int *out_count)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_DEVICES, NULL);
	rc = REAL(table, devices, out_count);
	trace_ended(&span, rc);
	return rc;
}

static ncclnet_result traced_properties(const void *table, int dev, void *room)
{
	struct net_props props = {.name = NULL};
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_PROPERTIES, NULL);
	rc = REAL(table, properties, dev, room);
	if (!rc)
		TRACED(table)->real->translate(room, &props);
	trace_device(&span, dev, rc, props.name, props.pci_path);
	return rc;
}

static ncclnet_result traced_listen(const void *table, void *context, int dev, void *handle,
				    void **out_comm)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_LISTEN, NULL);
	rc = REAL(table, listen, context, dev, handle, out_comm);
	trace_listened(&span, dev, rc, rc ? NULL : *out_comm, handle);
	return rc;
}

static ncclnet_result traced_connect(const void *table, void *context, int dev, void *handle,
				     void **out_comm, struct ncclnet_device_handle **device)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin_connect(&span, handle);
	rc = REAL(table, connect, context, dev, handle, out_comm, device);
	trace_connected(&span, dev, rc, rc ? NULL : *out_comm);
	return rc;
}

static ncclnet_result traced_take(const void *table, void *listener, void **out_comm,
				  struct ncclnet_device_handle **device)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_ACCEPT, listener);
	rc = REAL(table, take, listener, out_comm, device);
	trace_accepted(&span, rc, rc ? NULL : *out_comm);
	return rc;
}

static ncclnet_result traced_reg(const void *table, void *comm, void *data, size_t bytes, int type,
				 void **out_mr)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_REG, comm);
	rc = REAL(table, reg, comm, data, bytes, type, out_mr);
	trace_registered(&span, bytes, type, rc, rc ? NULL : *out_mr);
	return rc;
}

static ncclnet_result traced_dereg(const void *table, void *comm, void *mr)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_DEREG, comm);
	rc = REAL(table, dereg, comm, mr);
	trace_deregistered(&span, mr, rc);
	return rc;
}

static ncclnet_result traced_isend(const void *table, void *comm, void *data, size_t bytes, int tag,
				   void *mr, void **out_request)
{
	struct trace_part part = {bytes, tag, mr};
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_ISEND, comm);
	rc = REAL(table, isend, comm, data, bytes, tag, mr, out_request);
	trace_posted(&span, &part, 1, 0, rc, rc ? NULL : *out_request);
	return rc;
}

static ncclnet_result traced_irecv(const void *table, void *comm, void *data, size_t bytes, int tag,
				   void *mr, void **out_request)
{
	struct trace_part part = {bytes, tag, mr};
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_IRECV, comm);
	rc = REAL(table, irecv, comm, data, bytes, tag, mr, out_request);
	trace_posted(&span, &part, 1, 0, rc, rc ? NULL : *out_request);
	return rc;
}

static ncclnet_result traced_test(const void *table, void *request, int *out_done, int *out_bytes)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin_request(&span, TRACE_TEST, request);
	rc = REAL(table, test, request, out_done, out_bytes);
	trace_tested(&span, rc, rc ? 0 : *out_done, out_bytes);
	return rc;
}

static ncclnet_result traced_consumed(const void *table, void *comm, void *request)
{
	struct trace_span span;
	ncclnet_result rc;

	if (!TRACED(table)->real->has_consumed(TRACED(table)->table))
		return REAL(table, consumed, comm, request); /* calls no plugin, so not recorded */
	trace_begin_request(&span, TRACE_CONSUMED, request);
	rc = REAL(table, consumed, comm, request);
	trace_consumed(&span, rc);
	return rc;
}

static int traced_has_consumed(const void *table)
{
	return REAL(table, has_consumed);
}

static int traced_has_device_mr(const void *table)
{
	return REAL(table, has_device_mr);
}

static ncclnet_result traced_close_send(const void *table, void *comm)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_CLOSE_SEND, comm);
	rc = REAL(table, close_send, comm);
	trace_closed(&span, rc);
	return rc;
}

static ncclnet_result traced_close_recv(const void *table, void *comm)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_CLOSE_RECV, comm);
	rc = REAL(table, close_recv, comm);
	trace_closed(&span, rc);
	return rc;
}

static ncclnet_result traced_close_listen(const void *table, void *comm)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_CLOSE_LISTEN, comm);
	rc = REAL(table, close_listen, comm);
	trace_closed(&span, rc);
	return rc;
}

void net_traced_wrap(struct net_plugin *plugin)
{
	struct traced *traced;

	if (!*config_text(CONFIG_TRACE) || dlsym(plugin->dl, "tcpx_tracer_version"))
		return;
	traced = calloc(1, sizeof(*traced));
	if (!traced) {
		LOG_WARN("no trace of the plugin's calls: no memory");
		return;
	}
	*traced = (struct traced){
		.adapter = {.version = plugin->adapter->version,
			    .symbol = plugin->adapter->symbol,
			    .props_bytes = plugin->adapter->props_bytes,
			    .message_max = plugin->adapter->message_max,
			    .missing = traced_missing,
			    .name = traced_name,
			    .init = traced_init,
			    .devices = traced_devices,
			    .properties = traced_properties,
			    .translate = plugin->adapter->translate,
			    .listen = traced_listen,
			    .connect = traced_connect,
			    .take = traced_take,
			    .reg = traced_reg,
			    .dereg = traced_dereg,
			    .isend = traced_isend,
			    .irecv = traced_irecv,
			    .test = traced_test,
			    .consumed = traced_consumed,
			    .has_consumed = traced_has_consumed,
			    .has_device_mr = traced_has_device_mr,
			    .close_send = traced_close_send,
			    .close_recv = traced_close_recv,
			    .close_listen = traced_close_listen},
		.real = plugin->adapter,
		.table = plugin->table,
		.plugin = plugin,
	};
	plugin->adapter = &traced->adapter;
	plugin->table = traced;
}
