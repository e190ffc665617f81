/* SPDX-License-Identifier: Apache-2.0 */
/* --chunk LIST with a plugin: a process for each size, because a plugin reads
 * NCCL_DYNAMIC_CHUNK_SIZE once. */
#ifndef TOOLS_PERF_CHUNKS_H
#define TOOLS_PERF_CHUNKS_H

#include "perf_plan.h"

/* Runs the command line once for each chunk of the list, and merges the documents of --json.
 * argv[0] is "perf". Stops at the first exit code that is not 0 and returns it. */
int perf_chunks_run(const struct perf_options *options, int argc, char *const *argv);

#endif
