/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tracer object: the table of one version (TRACER_VERSION). It forwards each call, unchanged, to
 * the same table of the plugin that TCPX_TRACE_PLUGIN names, and records it in the file TCPX_TRACE.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "abi/ncclnet.h"
#include "base/config.h"
#include "trace/observe.h"
#include "trace/start.h"

#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define SYMBOL GLUE(ncclNetPlugin_v, TRACER_VERSION)
#define EXPORT __attribute__((visibility("default")))

typedef struct GLUE(ncclnet_table_v, TRACER_VERSION) table;
#if TRACER_VERSION == 10
typedef struct ncclnet_props_v9 props;
#else
typedef struct GLUE(ncclnet_props_v, TRACER_VERSION) props;
#endif
#if TRACER_VERSION >= 12
typedef struct ncclnet_vprops_v12 vprops;
#else
typedef struct ncclnet_vprops_v9 vprops;
#endif
#if TRACER_VERSION >= 8
typedef size_t mr_size;
#else
typedef int mr_size;
#endif
#if TRACER_VERSION >= 9
typedef size_t io_size;
#else
typedef int io_size;
#endif

/* The parameters that versions differ in. */
#if TRACER_VERSION >= 11
#define CONTEXT_PARAM void *context,
#define CONTEXT_ARG context,
#else
#define CONTEXT_PARAM
#define CONTEXT_ARG
#endif
#if TRACER_VERSION == 10
#define CONFIG_PARAM struct ncclnet_config *config,
#define CONFIG_ARG config,
#else
#define CONFIG_PARAM
#define CONFIG_ARG
#endif
#if TRACER_VERSION >= 7
#define DEVICE_PARAM , struct ncclnet_device_handle **device
#define DEVICE_ARG , device
#else
#define DEVICE_PARAM
#define DEVICE_ARG
#endif
#if TRACER_VERSION >= 10
#define PROFILE_PARAM void *profile,
#define PROFILE_ARG profile,
#define PROFILES_PARAM void **profiles,
#define PROFILES_ARG profiles,
#else
#define PROFILE_PARAM
#define PROFILE_ARG
#define PROFILES_PARAM
#define PROFILES_ARG
#endif

EXPORT table SYMBOL;
/* Tells our own loader that what it has loaded records already. */
EXPORT const int tcpx_tracer_version = TRACER_VERSION;

static const table *real;
static char failed[600]; /* why there is no real table */

/* Symbols of other kinds that a plugin may have: not forwarded, but named. */
static const char *const others[] = {
	"ncclCollNetPlugin_v6",	 "ncclCollNetPlugin_v7",  "ncclCollNetPlugin_v8",
	"ncclCollNetPlugin_v9",	 "ncclCollNetPlugin_v10", "ncclCollNetPlugin_v11",
	"ncclCollNetPlugin_v12", "ncclGinPlugin_v11",	  "ncclGinPlugin_v12",
	"ncclTunerPlugin_v2",	 "ncclTunerPlugin_v3",	  "ncclTunerPlugin_v4",
	"ncclTunerPlugin_v5",	 "ncclProfiler_v1",	  "ncclProfiler_v2",
	"ncclProfiler_v3",	 "ncclProfiler_v4",	  "ncclProfiler_v5",
};

static void note_plugin(void)
{
	void *handle = dlopen(config_text(CONFIG_TRACE_PLUGIN), RTLD_NOW | RTLD_NOLOAD);
	char names[512] = "";
	size_t len = 0;

	trace_recorder_note("plugin.path", "%s", config_text(CONFIG_TRACE_PLUGIN));
	trace_recorder_note("plugin.name", "%s", real->name ? real->name : "");
	trace_recorder_note("plugin.version", "%d", TRACER_VERSION);
#if TRACER_VERSION >= 7
	trace_recorder_note("plugin.consumed", "%d", real->irecv_consumed != NULL);
#endif
	for (size_t i = 0; handle && i < sizeof(others) / sizeof(others[0]); i++) {
		if (!dlsym(handle, others[i]) || len >= sizeof(names) - 1)
			continue;
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", len ? " " : "",
					others[i]);
	}
	if (*names)
		trace_recorder_note("plugin.left_out", "%s", names);
	if (handle)
		dlclose(handle); /* the count of NOLOAD; the image stays */
}

/* Before the first call of the plugin. */
static ncclnet_result start(ncclnet_logger logger)
{
	static int started;
	char why[600] = "";

	if (!real) {
		if (logger)
			logger(NCCLNET_LOG_WARN, NCCLNET_SUB_NET, __FILE__, __LINE__,
			       "tcpx trace: %s", failed);
		return NCCLNET_ERR_INTERNAL;
	}
	if (__atomic_exchange_n(&started, 1, __ATOMIC_RELAXED))
		return NCCLNET_OK;
	if (trace_start(why, sizeof(why)))
		note_plugin();
	else if (logger)
		logger(NCCLNET_LOG_WARN, NCCLNET_SUB_NET, __FILE__, __LINE__,
		       "tcpx trace: nothing is recorded: %s", why);
	return NCCLNET_OK;
}

#if TRACER_VERSION >= 11
static ncclnet_result tracer_init(void **out_context, uint64_t id, struct ncclnet_config *config,
				  ncclnet_logger logger, ncclnet_profiler profiler)
#elif TRACER_VERSION == 10
static ncclnet_result tracer_init(ncclnet_logger logger, ncclnet_profiler profiler)
#else
static ncclnet_result tracer_init(ncclnet_logger logger)
#endif
{
	struct trace_span span;
	ncclnet_result rc = start(logger);

	if (rc)
		return rc;
	trace_begin(&span, TRACE_INIT, NULL);
#if TRACER_VERSION >= 11
	rc = real->init(out_context, id, config, logger, profiler);
#elif TRACER_VERSION == 10
	rc = real->init(logger, profiler);
#else
	rc = real->init(logger);
#endif
	trace_ended(&span, rc);
	return rc;
}

static ncclnet_result tracer_devices(int *out_count)
{
	struct trace_span span;
	ncclnet_result rc;

	if (!real)
		return NCCLNET_ERR_INTERNAL;
	trace_begin(&span, TRACE_DEVICES, NULL);
	rc = real->devices(out_count);
	trace_ended(&span, rc);
	return rc;
}

static ncclnet_result tracer_properties(int dev, props *out_props)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_PROPERTIES, NULL);
	rc = real->get_properties(dev, out_props);
	trace_device(&span, dev, rc, rc ? NULL : out_props->name, rc ? NULL : out_props->pci_path);
	return rc;
}

static ncclnet_result tracer_listen(CONTEXT_PARAM int dev, void *handle, void **out_comm)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_LISTEN, NULL);
	rc = real->listen(CONTEXT_ARG dev, handle, out_comm);
	trace_listened(&span, dev, rc, rc ? NULL : *out_comm, handle);
	return rc;
}

static ncclnet_result tracer_connect(CONTEXT_PARAM int dev, CONFIG_PARAM void *handle,
				     void **out_comm DEVICE_PARAM)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin_connect(&span, handle);
	rc = real->connect(CONTEXT_ARG dev, CONFIG_ARG handle, out_comm DEVICE_ARG);
	trace_connected(&span, dev, rc, rc ? NULL : *out_comm);
	return rc;
}

static ncclnet_result tracer_accept(void *listener, void **out_comm DEVICE_PARAM)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_ACCEPT, listener);
	rc = (real->accept)(listener, out_comm DEVICE_ARG);
	trace_accepted(&span, rc, rc ? NULL : *out_comm);
	return rc;
}

static ncclnet_result tracer_reg(void *comm, void *data, mr_size bytes, int type, void **out_mr)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_REG, comm);
	rc = real->reg_mr(comm, data, bytes, type, out_mr);
	trace_registered(&span, (uint64_t)bytes, type, rc, rc ? NULL : *out_mr);
	return rc;
}

static ncclnet_result tracer_reg_dmabuf(void *comm, void *data, size_t bytes, int type,
					uint64_t offset, int fd, void **out_mr)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_REG_DMABUF, comm);
	rc = real->reg_mr_dmabuf(comm, data, bytes, type, offset, fd, out_mr);
	trace_registered(&span, bytes, type, rc, rc ? NULL : *out_mr);
	return rc;
}

static ncclnet_result tracer_dereg(void *comm, void *mr)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_DEREG, comm);
	rc = real->dereg_mr(comm, mr);
	trace_deregistered(&span, mr, rc);
	return rc;
}

static ncclnet_result tracer_isend(void *comm, void *data, io_size bytes, int tag, void *mr,
				   PROFILE_PARAM void **out_request)
{
	struct trace_part part = {(uint64_t)bytes, tag, mr};
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_ISEND, comm);
	rc = real->isend(comm, data, bytes, tag, mr, PROFILE_ARG out_request);
	trace_posted(&span, &part, 1, 0, rc, rc ? NULL : *out_request);
	return rc;
}

static ncclnet_result tracer_irecv(void *comm, int count, void **data, io_size *bytes, int *tags,
				   void **mrs, PROFILES_PARAM void **request)
{
	struct trace_part parts[TRACE_PARTS_MAX];
	struct trace_span span;
	ncclnet_result rc;
	int early = 0;

	for (unsigned i = 0; i < TRACE_PARTS_MAX && (int)i < count; i++)
		parts[i] = (struct trace_part){(uint64_t)bytes[i], tags[i], mrs ? mrs[i] : NULL};
#if TRACER_VERSION >= 9
	early = *request == (void *)1;
#endif
	trace_begin(&span, TRACE_IRECV, comm);
	rc = real->irecv(comm, count, data, bytes, tags, mrs, PROFILES_ARG request);
	trace_posted(&span, parts, count > 0 ? (unsigned)count : 0, early, rc,
		     rc ? NULL : *request);
	return rc;
}

static ncclnet_result tracer_iflush(void *comm, int count, void **data, int *bytes, void **mrs,
				    void **request)
{
	struct trace_part parts[TRACE_PARTS_MAX];
	struct trace_span span;
	ncclnet_result rc;

	for (unsigned i = 0; i < TRACE_PARTS_MAX && (int)i < count; i++)
		parts[i] = (struct trace_part){(uint64_t)bytes[i], 0, mrs ? mrs[i] : NULL};
	trace_begin(&span, TRACE_IFLUSH, comm);
	rc = real->iflush(comm, count, data, bytes, mrs, request);
	trace_posted(&span, parts, count > 0 ? (unsigned)count : 0, 0, rc, rc ? NULL : *request);
	return rc;
}

static ncclnet_result tracer_test(void *request, int *out_done, int *out_bytes)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin_request(&span, TRACE_TEST, request);
	rc = real->test(request, out_done, out_bytes);
	trace_tested(&span, rc, rc ? 0 : *out_done, out_bytes);
	return rc;
}

static ncclnet_result tracer_close_send(void *comm)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_CLOSE_SEND, comm);
	rc = real->close_send(comm);
	trace_closed(&span, rc);
	return rc;
}

static ncclnet_result tracer_close_recv(void *comm)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_CLOSE_RECV, comm);
	rc = real->close_recv(comm);
	trace_closed(&span, rc);
	return rc;
}

static ncclnet_result tracer_close_listen(void *comm)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_CLOSE_LISTEN, comm);
	rc = real->close_listen(comm);
	trace_closed(&span, rc);
	return rc;
}

#if TRACER_VERSION >= 7
static ncclnet_result tracer_device_mr(void *comm, void *mr, void **out_device_mr)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_DEVICE_MR, comm);
	rc = real->get_device_mr(comm, mr, out_device_mr);
	trace_ended(&span, rc);
	return rc;
}

static ncclnet_result tracer_consumed(void *comm, int count, void *request)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin_request(&span, TRACE_CONSUMED, request);
	rc = real->irecv_consumed(comm, count, request);
	trace_consumed(&span, rc);
	return rc;
}
#endif

#if TRACER_VERSION >= 9
static ncclnet_result tracer_virtual(int *out_dev, vprops *parts)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_VIRTUAL, NULL);
	rc = real->make_virtual(out_dev, parts);
	trace_ended(&span, rc);
	return rc;
}
#endif

#if TRACER_VERSION >= 11
static ncclnet_result tracer_finalize(void *context)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_FINALIZE, NULL);
	rc = real->finalize(context);
	trace_ended(&span, rc);
	return rc;
}

static ncclnet_result tracer_attr(void *context, struct ncclnet_attr *attr)
{
	struct trace_span span;
	ncclnet_result rc;

	trace_begin(&span, TRACE_ATTR, NULL);
	rc = real->set_attr(context, attr);
	trace_ended(&span, rc);
	return rc;
}
#endif

/* Members that the plugin lacks are lacking here. */
#define FORWARD(member, function) SYMBOL.member = real && !real->member ? NULL : (function)

static void find_real(void)
{
	const char *path = config_text(CONFIG_TRACE_PLUGIN);
	void *handle;

	if (!*path) {
		snprintf(failed, sizeof(failed), "TCPX_TRACE_PLUGIN names no plugin");
		return;
	}
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		const char *why = dlerror();

		snprintf(failed, sizeof(failed), "%s", why ? why : path);
		return;
	}
	real = dlsym(handle, TEXT(SYMBOL));
	if (!real)
		snprintf(failed, sizeof(failed), "%s has no %s; use a tracer object of its version",
			 path, TEXT(SYMBOL));
}

__attribute__((constructor)) static void tracer_load(void)
{
	find_real();
	SYMBOL.name = real && real->name ? real->name : "tcpxtrace";
	FORWARD(init, tracer_init);
	FORWARD(devices, tracer_devices);
	FORWARD(get_properties, tracer_properties);
	FORWARD(listen, tracer_listen);
	FORWARD(connect, tracer_connect);
	FORWARD(accept, tracer_accept);
	FORWARD(reg_mr, tracer_reg);
	FORWARD(reg_mr_dmabuf, tracer_reg_dmabuf);
	FORWARD(dereg_mr, tracer_dereg);
	FORWARD(isend, tracer_isend);
	FORWARD(irecv, tracer_irecv);
	FORWARD(iflush, tracer_iflush);
	FORWARD(test, tracer_test);
	FORWARD(close_send, tracer_close_send);
	FORWARD(close_recv, tracer_close_recv);
	FORWARD(close_listen, tracer_close_listen);
#if TRACER_VERSION >= 7
	FORWARD(get_device_mr, tracer_device_mr);
	FORWARD(irecv_consumed, tracer_consumed);
#endif
#if TRACER_VERSION >= 9
	FORWARD(make_virtual, tracer_virtual);
#endif
#if TRACER_VERSION >= 11
	FORWARD(finalize, tracer_finalize);
	FORWARD(set_attr, tracer_attr);
#endif
}
