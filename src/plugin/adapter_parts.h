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
#include "plugin/adapter_calls.h"

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
