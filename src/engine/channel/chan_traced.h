/* SPDX-License-Identifier: Apache-2.0 */
/* A stream channel whose sends and receives are recorded, if TCPX_TRACE names a file. */
#ifndef ENGINE_CHANNEL_CHAN_TRACED_H
#define ENGINE_CHANNEL_CHAN_TRACED_H

#include "net/net.h"

/* Returns a channel that records and owns chan, or chan itself if nothing is recorded or memory is
 * short. If a tracer object is in use (TCPX_TRACE_PLUGIN), that object alone records. Control
 * thread. */
struct net_chan *chan_traced(struct net_chan *chan);

#endif
