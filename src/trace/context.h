/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the context of a run as lines "key=value": what may differ between two runs, apart from
 * the calls into the plugin. */
#ifndef TRACE_CONTEXT_H
#define TRACE_CONTEXT_H

#include <stdio.h>

#include "trace/record.h"

/*
 * Writes the context lines for `place`. At the start: environment and topology. At the start and at
 * the end: loaded objects with their build ids, and counters of interfaces. Always: devices of the
 * plugin, GPUs that have been current, the owner NICs of these GPUs, and sockets with NIC and
 * TCP_INFO. Values of variables whose name suggests a secret are hidden. Passed to the recorder as
 * trace_recorder_opts.context.
 */
void trace_context_write(FILE *out, enum trace_context_places place);

/* Records the start value of the counter rx_devmem_pkts for a NIC that the plugin named after the
 * trace had begun. Keeps errno. */
void trace_context_counter(const char *nic);

#endif
