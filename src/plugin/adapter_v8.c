/* SPDX-License-Identifier: Apache-2.0 */
/* Adapter of ncclNet v8: sizes of registrations are size_t, and properties say whether a
 * registration is global (regIsGlobal). */
#include "plugin/adapter_parts.h"

#define ADAPT_VERSION 8
#define ADAPT_TABLE struct ncclnet_table_v8

ADAPT_COMMON;
ADAPT_INIT;
ADAPT_LISTEN;
ADAPT_CONNECT;
ADAPT_QUEUE;
ADAPT_REG;
ADAPT_DATA(int);

static void translate_v8(const void *room, struct net_props *out_props)
{
	const struct ncclnet_props_v8 *props = room;

	*out_props = (struct net_props){
		ADAPT_PROPS(props),
		ADAPT_PROPS_DEVICE(props),
		.reg_is_global = props->reg_is_global,
		.max_p2p_bytes = ADAPT_P2P_BYTES,
	};
}

const struct net_adapter net_adapter_v8 = {
	ADAPT_ROWS,
	.version = 8,
	.symbol = "ncclNetPlugin_v8",
	.props_bytes = sizeof(struct ncclnet_props_v8),
	.message_max = INT_MAX,
};
