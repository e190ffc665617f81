/* SPDX-License-Identifier: Apache-2.0 */
/* The context of a run as lines "key=value": what may differ between two runs besides the calls. */
#ifndef TRACE_CONTEXT_H
#define TRACE_CONTEXT_H

#include <stdio.h>

#include "trace/record.h"

/*
 * Writes the environment (start), loaded objects with their build ids (start and end), devices of
 * the plugin and owners, sockets with NIC and TCP_INFO, counters of interfaces (start and end).
 * Secrets are hidden. To be used as trace_recorder_opts.context.
 */
void trace_context_write(FILE *out, enum trace_context_places place);

/* Notes the start value of rx_devmem_pkts of a NIC that was not known when the trace began. */
void trace_context_counter(const char *nic);

#endif
