/* SPDX-License-Identifier: Apache-2.0 */
/* Adapter of ncclNet v10: isend and irecv take profiler handles, and connect takes a
 * configuration. */
#include "plugin/adapter_parts.h"

#define ADAPT_VERSION 10
#define ADAPT_TABLE struct ncclnet_table_v10

ADAPT_COMMON;
ADAPT_LISTEN;
ADAPT_QUEUE;
ADAPT_REG;
ADAPT_DATA_PROFILED;

static ncclnet_result init_v10(const void *table, ncclnet_logger logger, void **out_context)
{
	*out_context = NULL;
	return ADAPT(table)->init(logger, NULL);
}

static ncclnet_result connect_v10(const void *table, void *context, int dev, void *handle,
				  void **out_comm, struct ncclnet_device_handle **device)
{
	static struct ncclnet_config config = {.traffic_class = -1}; /* the plugin may keep it */

	(void)context;
	return ADAPT(table)->connect(dev, &config, handle, out_comm, device);
}

ADAPT_TRANSLATE(struct ncclnet_props_v9);

const struct net_adapter net_adapter_v10 = {
	ADAPT_ROWS,
	.version = 10,
	.symbol = "ncclNetPlugin_v10",
	.props_bytes = sizeof(struct ncclnet_props_v9),
	.message_max = SIZE_MAX,
};
