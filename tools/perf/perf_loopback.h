/* SPDX-License-Identifier: Apache-2.0 */
/* --loopback: a serve process of our own, ended in every way out. */
#ifndef TOOLS_PERF_LOOPBACK_H
#define TOOLS_PERF_LOOPBACK_H

#include "perf_host.h"
#include "perf_plan.h"

/* Starts 'tcpx serve --port 0 --once' for one path, bound and trusting as this end, and reads its
 * ready line into address. */
tcpx_status perf_loopback_start(const struct perf_options *options, const struct perf_path *path,
				char address[PERF_ADDRESS_TEXT]);

/* Ends it: it has 2 s to end by itself when asked politely (it does after the goodbye). */
void perf_loopback_stop(int politely);

#endif
