/* SPDX-License-Identifier: Apache-2.0 */
/* Starts recording according to the options TCPX_TRACE and TCPX_TRACE_RECORDS. */
#ifndef TRACE_START_H
#define TRACE_START_H

#include "trace/recorder.h"

/* Starts the recorder of this process unless TCPX_TRACE is empty or it has started. 1: it records;
 * 0: it does not, with the reason in why. Blocks for some milliseconds. */
int trace_start(char *why, size_t cap);

#endif
