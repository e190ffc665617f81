/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries to RxDM, the daemon that steers flows to GPUs. Each query has its own connection and a
 * deadline, and changes nothing in RxDM. The functions block, so they are called by
 * threads that may wait. RxDM never names the NIC that owns a GPU (topo/pairing.h).
 */
#ifndef TOPO_RXDM_CLIENT_H
#define TOPO_RXDM_CLIENT_H

#include "topo/pairing.h"
#include "wire/rxdm.h"

#define TOPO_RXDM_PREFIX "/run/tcpx" /* default folder of RxDM's sockets */

struct topo_rxdm_queues {
	int32_t ids[WIRE_RXDM_QUEUES_MAX];
	unsigned count;
};

/*
 * Ask RxDM for the queues, or the memory, of a GPU. prefix: the folder of RxDM's sockets.
 * deadline_ns: a time of base/clock.h. ERR_REFUSED: there is no socket, or no process listens at
 * it; ERR_TIMED_OUT; ERR_NOT_FOUND: RxDM does not know the GPU, and the error has RxDM's words;
 * ERR_PROTOCOL: another answer, or RxDM closed the connection; ERR_INVALID: prefix is not a folder
 * for sockets; ERR_SYSTEM, ERR_NO_DESCRIPTORS.
 */
tcpx_status topo_rxdm_queues(const char *prefix, pci_addr gpu, int64_t deadline_ns,
			     struct topo_rxdm_queues *out_queues);
tcpx_status topo_rxdm_memory(const char *prefix, pci_addr gpu, int64_t deadline_ns,
			     struct wire_rxdm_memory *out_memory);

/* The argument of topo_rxdm_ask(), which topo_pairs_build() calls for each GPU. After RxDM did not
 * answer once, it is not asked again. */
struct topo_rxdm_asker {
	const char *prefix;
	int64_t deadline_ns; /* for all queries together */
	tcpx_status status;  /* OK at first; then the first failure other than ERR_NOT_FOUND */
};
enum topo_rxdm_answer topo_rxdm_ask(void *asker, pci_addr gpu, int32_t *out_queues, unsigned max,
				    unsigned *out_count);

#endif
