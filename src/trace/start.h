/* SPDX-License-Identifier: Apache-2.0 */
/* Starts recording according to the options TCPX_TRACE and TCPX_TRACE_RECORDS. */
#ifndef TRACE_START_H
#define TRACE_START_H

#include "trace/recorder.h"

/* Starts the recorder of this process. Does nothing if TCPX_TRACE is empty, the recorder runs
 * already, or an earlier start failed. Returns 1 if calls are recorded, else 0 with the reason in
 * `why`. Blocks for some milliseconds. Keeps errno. */
int trace_start(char *why, size_t cap);

#endif
