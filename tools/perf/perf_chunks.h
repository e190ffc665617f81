/* SPDX-License-Identifier: Apache-2.0 */
/* --chunk LIST with a plugin, which reads NCCL_DYNAMIC_CHUNK_SIZE once: a process for each size. */
#ifndef TOOLS_PERF_CHUNKS_H
#define TOOLS_PERF_CHUNKS_H

#include "perf_plan.h"

/* Runs the command line once for each chunk of the list, with what follows from it at both ends;
 * the documents of --json become one. argv[0] is "perf". Answers an exit code: the first that is
 * not 0 ends it. */
int perf_chunks_run(const struct perf_options *options, int argc, char *const *argv);

#endif
