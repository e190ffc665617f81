/* SPDX-License-Identifier: Apache-2.0 */
/* --loopback: a serve process that ends with the run, however that ends. */
#ifndef TOOLS_PERF_LOOPBACK_H
#define TOOLS_PERF_LOOPBACK_H

#include "perf_host.h"
#include "perf_plan.h"

/* Starts 'tcpx serve --port 0 --once' for one path, with the --bind and trust options of this
 * end, and reads its ready line into address. */
tcpx_status perf_loopback_start(const struct perf_options *options, const struct perf_path *path,
				char address[PERF_ADDRESS_TEXT]);

/* Ends it; politely: gives it 2 s to end by itself, as it does after the goodbye. */
void perf_loopback_stop(int politely);

#endif
