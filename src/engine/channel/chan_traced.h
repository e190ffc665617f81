/* SPDX-License-Identifier: Apache-2.0 */
/* A stream channel whose sends and receives are recorded, if TCPX_TRACE names a file. */
#ifndef ENGINE_CHANNEL_CHAN_TRACED_H
#define ENGINE_CHANNEL_CHAN_TRACED_H

#include "net/net.h"

/* The channel that records, which owns chan; chan itself if nothing is recorded, or without memory.
 * Under a tracer object (TCPX_TRACE_PLUGIN) that object alone records. Control thread. */
struct net_chan *chan_traced(struct net_chan *chan);

#endif
