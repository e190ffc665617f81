/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries to RxDM, the daemon that steers flows to GPUs. Each query opens a connection of its own,
 * has a deadline, and changes nothing in RxDM. The functions block. RxDM never names the NIC that
 * owns a GPU; topo/pairing.h derives it.
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
 * Ask RxDM for the queues and for the memory of a GPU. `prefix` is the folder of RxDM's sockets,
 * and `deadline_ns` a time of the clock in base/clock.h. Return ERR_REFUSED if there is no socket,
 * no process listens at it or access is denied, ERR_TIMED_OUT after the deadline, ERR_NOT_FOUND if
 * RxDM does not know the GPU (the error quotes RxDM), ERR_PROTOCOL if RxDM closes the connection or
 * sends any other answer, ERR_INVALID if `prefix` is too long or empty, ERR_SYSTEM or
 * ERR_NO_DESCRIPTORS.
 */
tcpx_status topo_rxdm_queues(const char *prefix, pci_addr gpu, int64_t deadline_ns,
			     struct topo_rxdm_queues *out_queues);
tcpx_status topo_rxdm_memory(const char *prefix, pci_addr gpu, int64_t deadline_ns,
			     struct wire_rxdm_memory *out_memory);

/* The argument of topo_rxdm_ask(), which topo_pairs_build() calls for each GPU. After the first
 * failure other than ERR_NOT_FOUND, RxDM is not asked any more. */
struct topo_rxdm_asker {
	const char *prefix;
	int64_t deadline_ns; /* for all queries together */
	tcpx_status status;  /* OK, or the first failure other than ERR_NOT_FOUND */
};
enum topo_rxdm_answer topo_rxdm_ask(void *asker, pci_addr gpu, int32_t *out_queues, unsigned max,
				    unsigned *out_count);

#endif
