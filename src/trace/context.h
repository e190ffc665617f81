/* SPDX-License-Identifier: Apache-2.0 */
/* The surroundings of a run as lines "key=value": what differs between two runs besides calls. */
#ifndef TRACE_CONTEXT_H
#define TRACE_CONTEXT_H

#include <stdio.h>

#include "trace/record.h"

/*
 * Environment (start), loaded objects with their build ids (start and end), devices of the plugin
 * and owners, sockets with NIC and TCP_INFO, counters of interfaces (start and end). Secrets are
 * hidden. For trace_recorder_opts.context.
 */
void trace_context_write(FILE *out, enum trace_context_places place);

/* Notes the counter of a NIC that was not known when the trace began. */
void trace_context_counter(const char *nic);

#endif
