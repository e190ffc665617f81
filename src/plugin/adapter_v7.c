/* SPDX-License-Identifier: Apache-2.0 */
/* Adapter of ncclNet v7, the version of TCPX: device handles; sizes are ints. */
#include "plugin/adapter_parts.h"

#define ADAPT_VERSION 7
#define ADAPT_TABLE struct ncclnet_table_v7

ADAPT_COMMON;
ADAPT_INIT;
ADAPT_LISTEN;
ADAPT_CONNECT;
ADAPT_QUEUE;
ADAPT_REG_INT;
ADAPT_DATA(int);

static void translate_v7(const void *room, struct net_props *out_props)
{
	const struct ncclnet_props_v7 *props = room;

	*out_props = (struct net_props){
		ADAPT_PROPS(props),
		ADAPT_PROPS_DEVICE(props),
		.max_p2p_bytes = ADAPT_P2P_BYTES,
	};
}

const struct net_adapter net_adapter_v7 = {
	ADAPT_ROWS,
	.version = 7,
	.symbol = "ncclNetPlugin_v7",
	.props_bytes = sizeof(struct ncclnet_props_v7),
	.message_max = INT_MAX,
};
