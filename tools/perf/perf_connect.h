/* SPDX-License-Identifier: Apache-2.0 */
/* How perf connects to a serve: local addresses, session, errors. */
#ifndef TOOLS_PERF_CONNECT_H
#define TOOLS_PERF_CONNECT_H

#include "perf_plan.h"

/* Connects to "host[:port]" over the interfaces of --bind, or over every interface with a direct
 * route to an address of the other end. On failure the last error is set and nothing stays open. */
tcpx_status perf_connect(const struct perf_options *options, const struct perf_path *path,
			 const char *address, struct perf_client *client);

#endif
