/* SPDX-License-Identifier: Apache-2.0 */
/* What became of the messages of each channel of a peer. */
#ifndef TOOLS_PERF_CHANNELS_H
#define TOOLS_PERF_CHANNELS_H

#include <stdio.h>

#include <tcpx/query.h>

#define PERF_CHANNELS_MAX 64

/* The peer's channels of messages, at most PERF_CHANNELS_MAX; waits a moment for the plugin to end
 * what the peer has acknowledged. Returns how many. */
unsigned perf_channels_read(tcpx_session *session, tcpx_peer peer, tcpx_channel_info *out_rows);
/* "eth2,eth3": the NICs through which another GPU than the one named receives for it; "":
 * none. At most cap bytes. Returns text. */
const char *perf_channels_relay(tcpx_session *session, tcpx_peer peer, char *text, size_t cap);
/* A line for each. */
void perf_channels_print(FILE *out, const tcpx_channel_info *rows, unsigned count);

#endif
