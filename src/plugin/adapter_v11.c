/* SPDX-License-Identifier: Apache-2.0 */
/* Adapter of ncclNet v11: init returns a context for listen and connect. */
#include "plugin/adapter_parts.h"

#define ADAPT_VERSION 11
#define ADAPT_TABLE struct ncclnet_table_v11

ADAPT_COMMON;
ADAPT_CONTEXT;
ADAPT_QUEUE;
ADAPT_REG;
ADAPT_DATA_PROFILED;

ADAPT_TRANSLATE(struct ncclnet_props_v11);

const struct net_adapter net_adapter_v11 = {
	ADAPT_ROWS,
	.version = 11,
	.symbol = "ncclNetPlugin_v11",
	.props_bytes = sizeof(struct ncclnet_props_v11),
	.message_max = SIZE_MAX,
};
