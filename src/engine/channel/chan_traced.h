/* SPDX-License-Identifier: Apache-2.0 */
/* A channel whose stream's sends and receives are recorded, if TCPX_TRACE names a file. */
#ifndef ENGINE_CHANNEL_CHAN_TRACED_H
#define ENGINE_CHANNEL_CHAN_TRACED_H

#include "net/net.h"

/* Returns a channel that owns `chan` and records its sends and receives. Returns `chan` itself if
 * TCPX_TRACE names no file, the recorder did not start, memory is short, or a tracer plugin records
 * instead (TCPX_TRACE_PLUGIN). Called by the control thread. */
struct net_chan *chan_traced(struct net_chan *chan);

#endif
