/* SPDX-License-Identifier: Apache-2.0 */
/* Adapter of ncclNet v6: no device handles, no irecvConsumed; sizes are ints. */
#include "plugin/adapter_parts.h"

#define ADAPT_VERSION 6
#define ADAPT_TABLE struct ncclnet_table_v6

ADAPT_COMMON;
ADAPT_INIT;
ADAPT_LISTEN;
ADAPT_REG_INT;
ADAPT_DATA(int);

static ncclnet_result connect_v6(const void *table, void *context, int dev, void *handle,
				 void **out_comm, struct ncclnet_device_handle **device)
{
	(void)context;
	(void)device;
	return ADAPT(table)->connect(dev, handle, out_comm);
}

static ncclnet_result accept_v6(const void *table, void *listener, void **out_comm,
				struct ncclnet_device_handle **device)
{
	(void)device;
	return (ADAPT(table)->accept)(listener, out_comm);
}

static ncclnet_result consumed_v6(const void *table, void *comm, void *request)
{
	(void)table;
	(void)comm;
	(void)request;
	return NCCLNET_OK;
}

static int has_consumed_v6(const void *table)
{
	(void)table;
	return 0;
}

static int has_device_mr_v6(const void *table)
{
	(void)table;
	return 0;
}

static void translate_v6(const void *room, struct net_props *out_props)
{
	const struct ncclnet_props_v6 *props = room;

	*out_props = (struct net_props){
		ADAPT_PROPS(props),
		.max_p2p_bytes = ADAPT_P2P_BYTES,
	};
}

const struct net_adapter net_adapter_v6 = {
	ADAPT_ROWS,
	.version = 6,
	.symbol = "ncclNetPlugin_v6",
	.props_bytes = sizeof(struct ncclnet_props_v6),
	.message_max = INT_MAX,
};
