/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the library's threads run on a machine with several NUMA nodes: workers are spread over
 * them, in proportion to the CPUs that the process may use of each, and a channel goes to a worker
 * of its NIC's node; what serves a GPU runs near it. Nothing is pinned on a machine with one node,
 * or with TCPX_PIN=0. Interrupts are left where they are.
 */
#ifndef ENGINE_LINK_PLACE_H
#define ENGINE_LINK_PLACE_H

#include "engine/engine.h"

/* With the runtime's lock, before and after its workers. */
void place_start(void);
void place_stop(void);

/* Runs on CPUs of its node from now on; worker->node, or TOPO_NUMA_UNKNOWN. */
void place_worker(struct engine_worker *worker, uint32_t count);

/* The node of a NIC by its name, or by its index where name is NULL; TOPO_NUMA_UNKNOWN: not known,
 * or nothing is pinned. Control thread. */
int place_of_nic(const char *name, uint32_t iface);

/* How many bulk channels a session has where nobody said: by the cores. Any thread. */
uint32_t session_auto_channels(void);

#endif
