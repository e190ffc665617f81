/* SPDX-License-Identifier: Apache-2.0 */
/* The fake plugin's table, in the layout of FAKE_VERSION. */
#include "fake_priv.h"

/* The faces of the versions. */
/* A table that lacks something leaves its function unused. */
#pragma GCC diagnostic ignored "-Wunused-function"

#if FAKE_VERSION >= 11
static int init(void **context, uint64_t id, struct ncclnet_config *config, ncclnet_logger logger,
		ncclnet_profiler profiler)
{
	(void)id, (void)profiler;
	*context = config->traffic_class == -1 ? &fake_net : NULL;
	return fake_init(logger);
}
static int listen_on(void *context, int dev, void *handle, void **out)
{
	(void)dev;
	return context == &fake_net ? fake_listen(handle, out) : fake_breach();
}
static int connect_to(void *context, int dev, void *handle, void **out,
		      struct ncclnet_device_handle **device)
{
	(void)dev, (void)device;
	return context == &fake_net ? fake_connect(handle, out) : fake_breach();
}
#else
#if FAKE_VERSION == 10
static int init(ncclnet_logger logger, ncclnet_profiler profiler)
{
	(void)profiler;
	return fake_init(logger);
}
static int connect_to(int dev, struct ncclnet_config *config, void *handle, void **out,
		      struct ncclnet_device_handle **device)
{
	(void)dev, (void)device;
	return config->traffic_class == -1 ? fake_connect(handle, out) : fake_breach();
}
#else
static int init(ncclnet_logger logger)
{
	return fake_init(logger);
}
#if FAKE_VERSION >= 7
static int connect_to(int dev, void *handle, void **out, struct ncclnet_device_handle **device)
{
	(void)dev, (void)device;
	return fake_connect(handle, out);
}
#else
static int connect_to(int dev, void *handle, void **out)
{
	(void)dev;
	return fake_connect(handle, out);
}
#endif
#endif
static int listen_on(int dev, void *handle, void **out)
{
	(void)dev;
	return fake_listen(handle, out);
}
#endif

#if FAKE_VERSION >= 7
static int accept_on(void *listener, void **out, struct ncclnet_device_handle **device)
{
	int rc = fake_accept(listener, out);

	if (!rc && *out)
		**device =
			(struct ncclnet_device_handle){NCCLNET_DEVICE_UNPACK, 7, listener, 24, 1};
	return rc;
}
#else
static int accept_on(void *listener, void **out)
{
	return fake_accept(listener, out);
}
#endif

#if FAKE_VERSION >= 10
static int isend(void *comm, void *data, size_t bytes, int tag, void *mr, void *profile, void **out)
{
	return mr && !profile ? fake_isend(comm, data, bytes, tag, out) : fake_breach();
}
static int irecv(void *comm, int n, void **data, size_t *bytes, int *tags, void **mrs,
		 void **profiles, void **out)
{
	return mrs[0] && !profiles[0] ? fake_irecv(comm, n, data, bytes, tags, out) : fake_breach();
}
#else
static int isend(void *comm, void *data, io_size bytes, int tag, void *mr, void **out)
{
	return mr ? fake_isend(comm, data, bytes, tag, out) : fake_breach();
}
static int irecv(void *comm, int n, void **data, io_size *bytes, int *tags, void **mrs, void **out)
{
	return mrs[0] ? fake_irecv(comm, n, data, bytes, tags, out) : fake_breach();
}
#endif

#ifdef FAKE_NO_TABLE
SHOWN int ncclNetPlugin_v5 = 5;
#else
SHOWN volatile TABLE FAKE_SYMBOL = {
	.name = "fake",
	.init = init,
	.devices = fake_devices,
	.get_properties = fake_properties,
	.listen = listen_on,
	.connect = connect_to,
	.accept = accept_on,
	.reg_mr = fake_reg,
	.dereg_mr = fake_dereg,
#ifndef FAKE_NO_ISEND
	.isend = isend,
#endif
	.irecv = irecv,
	.iflush = fake_iflush,
	.test = fake_test,
	.close_send = fake_close_send,
	.close_recv = fake_close_recv,
	.close_listen = fake_close_listen,
#if CONSUMES
	.irecv_consumed = fake_consumed,
#endif
};
#endif
