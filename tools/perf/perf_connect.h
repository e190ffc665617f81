/* SPDX-License-Identifier: Apache-2.0 */
/* perf's way to a serve: which local addresses, which session, what went wrong. */
#ifndef TOOLS_PERF_CONNECT_H
#define TOOLS_PERF_CONNECT_H

#include "perf_plan.h"

/* Connects to "host[:port]" over the interfaces the user named, or over every one with a direct
 * route to an address of the other end. On failure the last error is set and nothing is left. */
tcpx_status perf_connect(const struct perf_options *options, const struct perf_path *path,
			 const char *address, struct perf_client *client);

#endif
