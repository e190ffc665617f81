/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One internal table for all versions of ncclNet. The argument `table` of its functions is the
 * plugin's own table; for the recording adapter it is a struct traced (traced.c). Only
 * adapter_v<n>.c knows the layout of version n.
 */
#ifndef PLUGIN_ADAPTER_H
#define PLUGIN_ADAPTER_H

#include <limits.h>
#include <string.h>

#include "abi/ncclnet.h"

#define NET_PROPS_BYTES 256 /* size in bytes, enough for the properties of every version */

/* A device's properties in one form for all versions. A property that the plugin's version lacks
 * has a default. The values are not checked yet, and the strings belong to the plugin. */
struct net_props {
	const char *name, *pci_path;
	uint64_t guid;
	int ptr_support, reg_is_global, speed, port, max_comms, max_recvs, device_type,
		device_version;
	float latency;
	size_t max_p2p_bytes;
};

struct net_adapter {
	int version;
	const char *symbol;
	size_t props_bytes; /* size in bytes of this version's properties */
	/* size in bytes of the largest message that this version's type for sizes can express */
	size_t message_max;

	/* Returns the name of a required member that is NULL in the table, or NULL if none is
	 * missing. */
	const char *(*missing)(const void *table);
	const char *(*name)(const void *table);
	ncclnet_result (*init)(const void *table, ncclnet_logger logger, void **out_context);
	ncclnet_result (*devices)(const void *table, int *out_count);
	/* Lets the plugin write its properties of the device into `room`, a buffer of
	 * NET_PROPS_BYTES. */
	ncclnet_result (*properties)(const void *table, int dev, void *room);
	/* Converts the properties in `room`, where properties() wrote them, to *out_props. */
	void (*translate)(const void *room, struct net_props *out_props);

	ncclnet_result (*listen)(const void *table, void *context, int dev, void *handle,
				 void **out_comm);
	/* Calls the plugin's connect once. On entry `*device` is the address of storage for the
	 * device handle; the storage must last as long as the comm. If the call succeeds and
	 * *out_comm is NULL, the caller must call again with the same arguments. */
	ncclnet_result (*connect)(const void *table, void *context, int dev, void *handle,
				  void **out_comm, struct ncclnet_device_handle **device);
	/* Calls the plugin's accept. The rules of connect apply. */
	ncclnet_result (*take)(const void *table, void *listener, void **out_comm,
			       struct ncclnet_device_handle **device);
	/* `type` is one of enum ncclnet_pointers. */
	ncclnet_result (*reg)(const void *table, void *comm, void *data, size_t bytes, int type,
			      void **out_mr);
	ncclnet_result (*dereg)(const void *table, void *comm, void *mr);

	/* isend posts the send of one message; irecv posts the receive of one message into a buffer
	 * of `bytes` bytes. If a call succeeds but *out_request is NULL, the plugin cannot take the
	 * message now: nothing is posted, and the caller may call again later. */
	ncclnet_result (*isend)(const void *table, void *comm, void *data, size_t bytes, int tag,
				void *mr, void **out_request);
	ncclnet_result (*irecv)(const void *table, void *comm, void *data, size_t bytes, int tag,
				void *mr, void **out_request);
	/* Sets *out_done to whether the request has ended. If it has, *out_bytes is the length of
	 * its message, or unchanged if the plugin does not report the length. */
	ncclnet_result (*test)(const void *table, void *request, int *out_done, int *out_bytes);
	/* Calls irecvConsumed for a received message. Returns success if the plugin lacks
	 * irecvConsumed. */
	ncclnet_result (*consumed)(const void *table, void *comm, void *request);
	/* Whether the table has irecvConsumed, and whether it has getDeviceMr. */
	int (*has_consumed)(const void *table);
	int (*has_device_mr)(const void *table);

	ncclnet_result (*close_send)(const void *table, void *comm);
	ncclnet_result (*close_recv)(const void *table, void *comm);
	ncclnet_result (*close_listen)(const void *table, void *comm);
};

extern const struct net_adapter net_adapter_v6, net_adapter_v7, net_adapter_v8, net_adapter_v9,
	net_adapter_v10, net_adapter_v11, net_adapter_v12;

#endif
