/* SPDX-License-Identifier: Apache-2.0 */
/* Adapter of ncclNet v9: sizes of messages are size_t, and properties say how large a message may
 * be. */
#include "plugin/adapter_parts.h"

#define ADAPT_VERSION 9
#define ADAPT_TABLE struct ncclnet_table_v9

ADAPT_COMMON;
ADAPT_INIT;
ADAPT_LISTEN;
ADAPT_CONNECT;
ADAPT_QUEUE;
ADAPT_REG;
ADAPT_DATA(size_t);

ADAPT_TRANSLATE(struct ncclnet_props_v9);

const struct net_adapter net_adapter_v9 = {
	ADAPT_ROWS,
	.version = 9,
	.symbol = "ncclNetPlugin_v9",
	.props_bytes = sizeof(struct ncclnet_props_v9),
	.message_max = SIZE_MAX,
};
