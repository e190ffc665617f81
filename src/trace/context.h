/* SPDX-License-Identifier: Apache-2.0 */
/* The context of a run as lines "key=value": what may differ between two runs in addition to the
 * calls of the plugin. */
#ifndef TRACE_CONTEXT_H
#define TRACE_CONTEXT_H

#include <stdio.h>

#include "trace/record.h"

/*
 * Writes the context of a place: environment and topology (start only), loaded objects with their
 * build ids and counters of interfaces (start and end), devices of the plugin and owner NICs,
 * sockets with NIC and TCP_INFO (always). Values of secret variables are hidden. Used as
 * trace_recorder_opts.context.
 */
void trace_context_write(FILE *out, enum trace_context_places place);

/* Records the start value of rx_devmem_pkts of a NIC that the plugin has named after the trace
 * began. Keeps errno. */
void trace_context_counter(const char *nic);

#endif
