/* SPDX-License-Identifier: Apache-2.0 */
/* The functions for connections, memory and messages; adapter_parts.h says how they are used. */
#ifndef PLUGIN_ADAPTER_CALLS_H
#define PLUGIN_ADAPTER_CALLS_H

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

#endif
