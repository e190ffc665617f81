/* SPDX-License-Identifier: Apache-2.0 */
/* The part of --ceiling that GPU memory adds: each end measures the copy engines of its own GPU. */
#ifndef TOOLS_PERF_ENGINES_H
#define TOOLS_PERF_ENGINES_H

#include "ceiling_gpu.h"
#include "perf_plan.h"

/* Asks for the memory of both ends and writes what it is into the path; where there is none of the
 * kind, or none for us, the last error says why. */
tcpx_status perf_engines_find(struct perf_client *client, const struct perf_options *options,
			      struct perf_path *path);

/* Measures what lies on the way of the bytes, one after the other; nothing without GPU memory. */
tcpx_status perf_engines_measure(struct perf_client *client, unsigned directions,
				 const struct perf_path *path, struct ceiling_rates *out_rates);

/* Adds them to what the plain sockets reached. */
void perf_engines_apply(const struct ceiling_rates *rates, unsigned directions,
			struct ceiling_result *result);

#endif
