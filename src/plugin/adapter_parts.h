/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that the adapters of several versions share. They are macros, because the functions of
 * two versions differ only in types, such as that of the plugin's table. Each adapter_v<n>.c
 * defines ADAPT_VERSION, and ADAPT_TABLE as the type of its table, and uses the macros whose
 * comments name version n. The names of the functions end with the version, as in isend_v7.
 */
#ifndef PLUGIN_ADAPTER_PARTS_H
#define PLUGIN_ADAPTER_PARTS_H

#include "plugin/adapter.h"

#define ADAPT(table) ((const ADAPT_TABLE *)(table))

#define ADAPT_PASTE(name, version) name##_v##version
#define ADAPT_PASTED(name, version) ADAPT_PASTE(name, version)
#define ADAPT_NAME(name) ADAPT_PASTED(name, ADAPT_VERSION)

/* Makes the function that uses the macro fail if a size does not fit an int. This never happens: a
 * message has at most message_max bytes, and memory is registered in pieces that fit
 * (NET_MR_PIECE). */
#define ADAPT_FITS(bytes)                                                                          \
	do {                                                                                       \
		if ((bytes) > INT_MAX)                                                             \
			return NCCLNET_ERR_ARGUMENT;                                               \
	} while (0)

/* Makes the function that uses the macro return the name of the member if the member is NULL in the
 * plugin's table. */
#define ADAPT_NEED(table, member)                                                                  \
	do {                                                                                       \
		if (!ADAPT(table)->member)                                                         \
			return #member;                                                            \
	} while (0)

/* Defines the functions whose code is the same in every version. */
#define ADAPT_COMMON                                                                               \
	static const char *ADAPT_NAME(missing)(const void *table)                                  \
	{                                                                                          \
		ADAPT_NEED(table, name);                                                           \
		ADAPT_NEED(table, init);                                                           \
		ADAPT_NEED(table, devices);                                                        \
		ADAPT_NEED(table, get_properties);                                                 \
		ADAPT_NEED(table, listen);                                                         \
		ADAPT_NEED(table, connect);                                                        \
		ADAPT_NEED(table, accept);                                                         \
		ADAPT_NEED(table, reg_mr);                                                         \
		ADAPT_NEED(table, dereg_mr);                                                       \
		ADAPT_NEED(table, isend);                                                          \
		ADAPT_NEED(table, irecv);                                                          \
		ADAPT_NEED(table, test);                                                           \
		ADAPT_NEED(table, close_send);                                                     \
		ADAPT_NEED(table, close_recv);                                                     \
		ADAPT_NEED(table, close_listen);                                                   \
		return NULL;                                                                       \
	}                                                                                          \
	static const char *ADAPT_NAME(name)(const void *table)                                     \
	{                                                                                          \
		return ADAPT(table)->name;                                                         \
	}                                                                                          \
	static ncclnet_result ADAPT_NAME(devices)(const void *table, int *out_count)               \
	{                                                                                          \
		return ADAPT(table)->devices(out_count);                                           \
	}                                                                                          \
	static ncclnet_result ADAPT_NAME(properties)(const void *table, int dev, void *room)       \
	{                                                                                          \
		return ADAPT(table)->get_properties(dev, room);                                    \
	}                                                                                          \
	static ncclnet_result ADAPT_NAME(dereg)(const void *table, void *comm, void *mr)           \
	{                                                                                          \
		return ADAPT(table)->dereg_mr(comm, mr);                                           \
	}                                                                                          \
	static ncclnet_result ADAPT_NAME(test)(const void *table, void *request, int *out_done,    \
					       int *out_bytes)                                     \
	{                                                                                          \
		return ADAPT(table)->test(request, out_done, out_bytes);                           \
	}                                                                                          \
	static ncclnet_result ADAPT_NAME(close_send)(const void *table, void *comm)                \
	{                                                                                          \
		return ADAPT(table)->close_send(comm);                                             \
	}                                                                                          \
	static ncclnet_result ADAPT_NAME(close_recv)(const void *table, void *comm)                \
	{                                                                                          \
		return ADAPT(table)->close_recv(comm);                                             \
	}                                                                                          \
	static ncclnet_result ADAPT_NAME(close_listen)(const void *table, void *comm)              \
	{                                                                                          \
		return ADAPT(table)->close_listen(comm);                                           \
	}                                                                                          \
	struct adapt_semicolon

/* Defines init for v6 to v9. The plugin's init takes only the logger and returns no context. */
#define ADAPT_INIT                                                                                 \
	static ncclnet_result ADAPT_NAME(init)(const void *table, ncclnet_logger logger,           \
					       void **out_context)                                 \
	{                                                                                          \
		*out_context = NULL;                                                               \
		return ADAPT(table)->init(logger);                                                 \
	}                                                                                          \
	struct adapt_semicolon

/* Defines listen for v6 to v10. The plugin's listen takes no context. */
#define ADAPT_LISTEN                                                                               \
	static ncclnet_result ADAPT_NAME(listen)(const void *table, void *context, int dev,        \
						 void *handle, void **out_comm)                    \
	{                                                                                          \
		(void)context;                                                                     \
		return ADAPT(table)->listen(dev, handle, out_comm);                                \
	}                                                                                          \
	struct adapt_semicolon

/* Defines connect for v7 to v9. The plugin's connect takes no context and returns a device
 * handle. */
#define ADAPT_CONNECT                                                                              \
	static ncclnet_result ADAPT_NAME(connect)(const void *table, void *context, int dev,       \
						  void *handle, void **out_comm,                   \
						  struct ncclnet_device_handle **device)           \
	{                                                                                          \
		(void)context;                                                                     \
		return ADAPT(table)->connect(dev, handle, out_comm, device);                       \
	}                                                                                          \
	struct adapt_semicolon

/* Defines accept, consumed, has_consumed and has_device_mr for v7 and newer. The plugin's accept
 * returns a device handle. */
#define ADAPT_QUEUE                                                                                \
	static ncclnet_result ADAPT_NAME(accept)(const void *table, void *listener,                \
						 void **out_comm,                                  \
						 struct ncclnet_device_handle **device)            \
	{                                                                                          \
		return (ADAPT(table)->accept)(listener, out_comm, device);                         \
	}                                                                                          \
	static ncclnet_result ADAPT_NAME(consumed)(const void *table, void *comm, void *request)   \
	{                                                                                          \
		if (!ADAPT(table)->irecv_consumed)                                                 \
			return NCCLNET_OK;                                                         \
		return ADAPT(table)->irecv_consumed(comm, 1, request);                             \
	}                                                                                          \
	static int ADAPT_NAME(has_consumed)(const void *table)                                     \
	{                                                                                          \
		return ADAPT(table)->irecv_consumed != NULL;                                       \
	}                                                                                          \
	static int ADAPT_NAME(has_device_mr)(const void *table)                                    \
	{                                                                                          \
		return ADAPT(table)->get_device_mr != NULL;                                        \
	}                                                                                          \
	struct adapt_semicolon

/* Defines reg for v6 and v7. The plugin's regMr takes the size as an int. */
#define ADAPT_REG_INT                                                                              \
	static ncclnet_result ADAPT_NAME(reg)(const void *table, void *comm, void *data,           \
					      size_t bytes, int type, void **out_mr)               \
	{                                                                                          \
		ADAPT_FITS(bytes);                                                                 \
		return ADAPT(table)->reg_mr(comm, data, (int)bytes, type, out_mr);                 \
	}                                                                                          \
	struct adapt_semicolon

/* Defines reg for v8 and newer. The plugin's regMr takes the size as a size_t. */
#define ADAPT_REG                                                                                  \
	static ncclnet_result ADAPT_NAME(reg)(const void *table, void *comm, void *data,           \
					      size_t bytes, int type, void **out_mr)               \
	{                                                                                          \
		return ADAPT(table)->reg_mr(comm, data, bytes, type, out_mr);                      \
	}                                                                                          \
	struct adapt_semicolon

/* Defines isend and irecv for v6 to v9. `type` is the type in which the plugin's functions take the
 * size: int in v6 to v8, size_t in v9. */
#define ADAPT_DATA(type)                                                                           \
	static ncclnet_result ADAPT_NAME(isend)(const void *table, void *comm, void *data,         \
						size_t bytes, int tag, void *mr,                   \
						void **out_request)                                \
	{                                                                                          \
		if (sizeof(type) < sizeof(bytes))                                                  \
			ADAPT_FITS(bytes);                                                         \
		return ADAPT(table)->isend(comm, data, (type)bytes, tag, mr, out_request);         \
	}                                                                                          \
	static ncclnet_result ADAPT_NAME(irecv)(const void *table, void *comm, void *data,         \
						size_t bytes, int tag, void *mr,                   \
						void **out_request)                                \
	{                                                                                          \
		type room = (type)bytes;                                                           \
		if (sizeof(type) < sizeof(bytes))                                                  \
			ADAPT_FITS(bytes);                                                         \
		return ADAPT(table)->irecv(comm, 1, &data, &room, &tag, &mr, out_request);         \
	}                                                                                          \
	struct adapt_semicolon

/* Defines isend and irecv for v10 and newer. The plugin's functions also take a profiler's handle;
 * it is NULL. */
#define ADAPT_DATA_PROFILED                                                                        \
	static ncclnet_result ADAPT_NAME(isend)(const void *table, void *comm, void *data,         \
						size_t bytes, int tag, void *mr,                   \
						void **out_request)                                \
	{                                                                                          \
		return ADAPT(table)->isend(comm, data, bytes, tag, mr, NULL, out_request);         \
	}                                                                                          \
	static ncclnet_result ADAPT_NAME(irecv)(const void *table, void *comm, void *data,         \
						size_t bytes, int tag, void *mr,                   \
						void **out_request)                                \
	{                                                                                          \
		void *profile = NULL;                                                              \
		return ADAPT(table)->irecv(comm, 1, &data, &bytes, &tag, &mr, &profile,            \
					   out_request);                                           \
	}                                                                                          \
	struct adapt_semicolon

/* Defines init, listen and connect for v11 and newer. The plugin's init returns a context, which
 * its listen and connect take. `config` is static, because the plugin may keep its address. */
#define ADAPT_CONTEXT                                                                              \
	static ncclnet_result ADAPT_NAME(init)(const void *table, ncclnet_logger logger,           \
					       void **out_context)                                 \
	{                                                                                          \
		static struct ncclnet_config config = {.traffic_class = -1};                       \
		return ADAPT(table)->init(out_context, 0, &config, logger, NULL);                  \
	}                                                                                          \
	static ncclnet_result ADAPT_NAME(listen)(const void *table, void *context, int dev,        \
						 void *handle, void **out_comm)                    \
	{                                                                                          \
		return ADAPT(table)->listen(context, dev, handle, out_comm);                       \
	}                                                                                          \
	static ncclnet_result ADAPT_NAME(connect)(const void *table, void *context, int dev,       \
						  void *handle, void **out_comm,                   \
						  struct ncclnet_device_handle **device)           \
	{                                                                                          \
		return ADAPT(table)->connect(context, dev, handle, out_comm, device);              \
	}                                                                                          \
	struct adapt_semicolon

/* Sets the fields that the properties of every version have. */
#define ADAPT_PROPS(props)                                                                         \
	.name = (props)->name, .pci_path = (props)->pci_path, .guid = (props)->guid,               \
	.ptr_support = (props)->ptr_support, .speed = (props)->speed, .port = (props)->port,       \
	.latency = (props)->latency, .max_comms = (props)->max_comms,                              \
	.max_recvs = (props)->max_recvs
/* Sets the fields that the properties of v7 and newer have. */
#define ADAPT_PROPS_DEVICE(props)                                                                  \
	.device_type = (props)->device_type, .device_version = (props)->device_version
/* Defines translate for v9 and newer. */
#define ADAPT_TRANSLATE(type)                                                                      \
	static void ADAPT_NAME(translate)(const void *room, struct net_props *out_props)           \
	{                                                                                          \
		const type *props = room;                                                          \
		*out_props = (struct net_props){                                                   \
			ADAPT_PROPS(props),                                                        \
			ADAPT_PROPS_DEVICE(props),                                                 \
			.reg_is_global = props->reg_is_global,                                     \
			.max_p2p_bytes = props->max_p2p_bytes,                                     \
		};                                                                                 \
	}                                                                                          \
	struct adapt_semicolon
/* The size limit of a message for versions whose properties do not state one. */
#define ADAPT_P2P_BYTES ((size_t)1 << 30)

/* Sets the members of struct net_adapter that are functions. */
#define ADAPT_ROWS                                                                                 \
	.missing = ADAPT_NAME(missing), .name = ADAPT_NAME(name), .init = ADAPT_NAME(init),        \
	.devices = ADAPT_NAME(devices), .properties = ADAPT_NAME(properties),                      \
	.translate = ADAPT_NAME(translate), .listen = ADAPT_NAME(listen),                          \
	.connect = ADAPT_NAME(connect), .take = ADAPT_NAME(accept), .reg = ADAPT_NAME(reg),        \
	.dereg = ADAPT_NAME(dereg), .isend = ADAPT_NAME(isend), .irecv = ADAPT_NAME(irecv),        \
	.test = ADAPT_NAME(test), .consumed = ADAPT_NAME(consumed),                                \
	.has_consumed = ADAPT_NAME(has_consumed), .has_device_mr = ADAPT_NAME(has_device_mr),      \
	.close_send = ADAPT_NAME(close_send), .close_recv = ADAPT_NAME(close_recv),                \
	.close_listen = ADAPT_NAME(close_listen)

#endif
