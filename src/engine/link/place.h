/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the library's threads run on a machine with several NUMA nodes: workers are spread over the
 * nodes in proportion to the CPUs that the process may use, a channel goes to a worker on its NIC's
 * node, and the thread that serves a GPU runs near it. Nothing is pinned on a machine with one
 * node, or with TCPX_PIN=0. Interrupts are not changed.
 */
#ifndef ENGINE_LINK_PLACE_H
#define ENGINE_LINK_PLACE_H

#include "engine/link/engine.h"

/* Called under the runtime's lock: before the first worker starts, and after the last one ended. */
void place_start(void);
void place_stop(void);

/* Pins the worker, one of `count`, to CPUs of a node, and sets worker->node, which may be
 * TOPO_NUMA_UNKNOWN. */
void place_worker(struct engine_worker *worker, uint32_t count);

/* The NUMA node of a NIC, by its name, or by its index if name is NULL. TOPO_NUMA_UNKNOWN: not
 * known, or threads are not pinned. Control thread. */
int place_of_nic(const char *name, uint32_t iface);

/* The default number of bulk channels of a session, by the number of cores. Any thread. */
uint32_t session_auto_channels(void);

#endif
