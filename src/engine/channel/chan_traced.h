/* SPDX-License-Identifier: Apache-2.0 */
/* A stream channel whose sends and receives are recorded, if TCPX_TRACE names a file. */
#ifndef ENGINE_CHANNEL_CHAN_TRACED_H
#define ENGINE_CHANNEL_CHAN_TRACED_H

#include "net/net.h"

/* Returns a channel that records and owns chan; or chan itself if TCPX_TRACE names no file, the
 * recorder did not start, or memory is short. If a tracer plugin is in use (TCPX_TRACE_PLUGIN),
 * that plugin alone records, and chan is returned. Control thread. */
struct net_chan *chan_traced(struct net_chan *chan);

#endif
