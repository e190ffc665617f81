/* SPDX-License-Identifier: Apache-2.0 */
/* --ceiling with GPU memory: each end measures the copy engines of its own GPU. */
#ifndef TOOLS_PERF_ENGINES_H
#define TOOLS_PERF_ENGINES_H

#include "ceiling_gpu.h"
#include "perf_plan.h"

/* Finds the memory of both ends and writes it into the path. Fails if an end has no such memory
 * or refuses it. */
tcpx_status perf_engines_find(struct perf_client *client, const struct perf_options *options,
			      struct perf_path *path);

/* Measures the copy engines on the path, one after the other; without GPU memory nothing. */
tcpx_status perf_engines_measure(struct perf_client *client, unsigned directions,
				 const struct perf_path *path, struct ceiling_rates *out_rates);

/* Combines them with the result of the plain sockets. */
void perf_engines_apply(const struct ceiling_rates *rates, unsigned directions,
			struct ceiling_result *result);

#endif
