/* SPDX-License-Identifier: Apache-2.0 */
/* Adapter of ncclNet v12. It differs from v11 in two ways: a virtual device may have up to eight
 * physical devices, and the properties have the numbers of a rail and a plane, which the
 * library does not use. */
#include "plugin/adapter_parts.h"

#define ADAPT_VERSION 12
#define ADAPT_TABLE struct ncclnet_table_v12

ADAPT_COMMON;
ADAPT_CONTEXT;
ADAPT_QUEUE;
ADAPT_REG;
ADAPT_DATA_PROFILED;

ADAPT_TRANSLATE(struct ncclnet_props_v12);

const struct net_adapter net_adapter_v12 = {
	ADAPT_ROWS,
	.version = 12,
	.symbol = "ncclNetPlugin_v12",
	.props_bytes = sizeof(struct ncclnet_props_v12),
	.message_max = SIZE_MAX,
};
