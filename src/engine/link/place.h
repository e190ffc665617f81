/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the library's threads run on a machine with several NUMA nodes. Workers are spread over the
 * nodes in proportion to the CPUs that the process may use. A bulk channel goes to a worker on its
 * NIC's node, and the thread that serves a GPU runs near that GPU. The worker of the priority
 * channels is not pinned. Nothing is pinned on a machine with one node, or with TCPX_PIN=0. The
 * placement of interrupts is not changed.
 */
#ifndef ENGINE_LINK_PLACE_H
#define ENGINE_LINK_PLACE_H

#include "engine/link/engine.h"

/* place_start() reads the topology if threads are to be pinned, and place_stop() frees it. They are
 * called before the first worker starts and after the last worker has ended, under the runtime's
 * lock. */
void place_start(void);
void place_stop(void);

/* Pins the worker, one of `count` workers, to the CPUs of a node. Sets worker->node, to
 * TOPO_NUMA_UNKNOWN if the worker is not pinned. */
void place_worker(struct engine_worker *worker, uint32_t count);

/* Called by the control thread. Returns the NUMA node of the NIC called `name`, or with interface
 * index `iface` if `name` is NULL. Returns TOPO_NUMA_UNKNOWN if the node is not known or threads
 * are not pinned. */
int place_of_nic(const char *name, uint32_t iface);

/* Returns the default number of bulk channels of a session, which depends on the number of cores.
 * May be called by any thread. */
uint32_t session_auto_channels(void);

#endif
