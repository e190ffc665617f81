/* SPDX-License-Identifier: Apache-2.0 */
/* Message counters of the channels of a peer. */
#ifndef TOOLS_PERF_CHANNELS_H
#define TOOLS_PERF_CHANNELS_H

#include <stdio.h>

#include <tcpx/query.h>

#define PERF_CHANNELS_MAX 64

/* Reads the message channels of a peer, at most PERF_CHANNELS_MAX, and returns their number.
 * Waits a moment for the plugin to complete what the peer has acknowledged. */
unsigned perf_channels_read(tcpx_session *session, tcpx_peer peer, tcpx_channel_info *out_rows);
/* Writes the NICs through which another GPU receives for this end's: "eth2,eth3"; "": none. At
 * most cap bytes. Returns text. */
const char *perf_channels_relay(tcpx_session *session, tcpx_peer peer, char *text, size_t cap);
/* Prints a line per channel. */
void perf_channels_print(FILE *out, const tcpx_channel_info *rows, unsigned count);

#endif
