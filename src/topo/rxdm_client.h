/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to RxDM, the daemon that steers flows to GPUs: a connection for each, answered by a
 * deadline. None of them changes anything there. Calls block, so they belong on threads that set
 * up. RxDM never says which NIC owns a GPU (topo/pairing.h).
 */
#ifndef TOPO_RXDM_CLIENT_H
#define TOPO_RXDM_CLIENT_H

#include "topo/pairing.h"
#include "wire/rxdm.h"

#define TOPO_RXDM_PREFIX "/run/tcpx" /* where RxDM's sockets are by default */

struct topo_rxdm_queues {
	int32_t ids[WIRE_RXDM_QUEUES_MAX];
	unsigned count;
};

/*
 * prefix: the folder of RxDM's sockets. deadline_ns: of base/clock.h.
 * ERR_REFUSED: no socket, or nobody listens; ERR_TIMED_OUT; ERR_NOT_FOUND: RxDM answered that it
 * does not know the GPU, in the words of the error; ERR_PROTOCOL: it answered something else or
 * hung up; ERR_INVALID: no folder for sockets; ERR_SYSTEM, ERR_NO_DESCRIPTORS.
 */
tcpx_status topo_rxdm_queues(const char *prefix, pci_addr gpu, int64_t deadline_ns,
			     struct topo_rxdm_queues *out_queues);
tcpx_status topo_rxdm_memory(const char *prefix, pci_addr gpu, int64_t deadline_ns,
			     struct wire_rxdm_memory *out_memory);

/* For topo_pairs_build(). Once RxDM was silent it is not asked again. */
struct topo_rxdm_asker {
	const char *prefix;
	int64_t deadline_ns; /* of all questions together */
	tcpx_status status; /* in: OK. The first failure other than ERR_NOT_FOUND, OK: it answers */
};
enum topo_rxdm_answer topo_rxdm_ask(void *asker, pci_addr gpu, int32_t *out_queues, unsigned max,
				    unsigned *out_count);

#endif
