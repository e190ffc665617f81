/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC through which a GPU receives. RxDM puts the rule of every flow on the NIC that owns the
 * GPU, wherever the flow arrives, and answers "Ok." in both cases; a receive on another NIC is
 * lost, and the plugin ends the process. None of RxDM's sockets names the owner
 * (docs/design/topo.md). The owner is derived, and RxDM's answers confirm or refute it. Sending may
 * use any NIC. Built once, then read-only, for any thread.
 */
#ifndef TOPO_PAIRING_H
#define TOPO_PAIRING_H

#include "topo/graph.h"

enum topo_source {
	TOPO_SOURCE_NONE,   /* no owner: RxDM does not know the GPU, or nothing determines one */
	TOPO_SOURCE_PRESET, /* RxDM's own table for A3 hosts, "a3vm" */
	TOPO_SOURCE_PCIE,   /* the nearest NIC, as RxDM's "auto" derives it */
};

/* Answer of RxDM about a GPU. */
enum topo_rxdm_answer {
	TOPO_RXDM_SILENT, /* not asked, not running, or too late */
	TOPO_RXDM_KNOWN,  /* the GPU has queues */
	TOPO_RXDM_DENIED, /* the GPU has no queues */
};

struct topo_owner {
	pci_addr gpu, nic; /* nic: PCI_NONE if the GPU has no owner */
	char nic_name[IF_NAMESIZE];
	enum topo_source source;
	enum topo_rxdm_answer rxdm;
};

struct topo_pairs {
	struct topo_owner owners[TOPO_GPUS_MAX]; /* sorted by GPU address */
	unsigned count;
};

/* Asks RxDM for the queues of one GPU: writes at most max queues, and their number to out_count. */
typedef enum topo_rxdm_answer (*topo_queues_fn)(void *arg, pci_addr gpu, int32_t *out_queues,
						unsigned max, unsigned *out_count);

/*
 * Finds the owner of every GPU of the graph. If all NICs of the preset exist, the preset decides
 * for the GPUs that it names; else the nearest NIC (of several the lowest address). ask may be
 * NULL. A GPU that RxDM does not know has no owner. GPUs of one NIC have different queues: if two
 * GPUs that the preset assigns to one NIC have the same queue, RxDM does not run the preset, and
 * the nearest NIC is used; if two GPUs of the nearest NIC have the same queue, too, these GPUs have
 * no owner.
 */
void topo_pairs_build(const struct topo *topo, topo_queues_fn ask, void *arg,
		      struct topo_pairs *out_pairs);

/* The owner NIC of a GPU. NULL: the GPU is not in the graph. */
const struct topo_owner *topo_owner_of(const struct topo_pairs *pairs, pci_addr gpu);

/* The NIC through which gpu receives. ERR_NOT_FOUND: that NIC is unknown. */
tcpx_status topo_pairing(const struct topo_pairs *pairs, pci_addr gpu, pci_addr *out_nic);

/* OK if gpu receives through nic. ERR_UNSUPPORTED: it does not; the error names both addresses and
 * the owner, and its next step says what to do. */
tcpx_status topo_pairing_check(const struct topo_pairs *pairs, pci_addr nic, pci_addr gpu);

/* Questions about GPUs that topo_route() asks its caller, who knows the driver. */
struct topo_gpus {
	/* whether this process can use the GPU */
	int (*visible)(void *arg, pci_addr gpu);
	/* whether from can write to the memory of to */
	int (*reaches)(void *arg, pci_addr from, pci_addr to);
	void *arg;
};

/* How a GPU receives through a NIC. landing is the GPU whose memory the packets go to: gpu
 * itself, or another GPU, one that the NIC owns. A CUDA kernel on landing then copies to gpu by
 * peer access; this is called a relay. */
struct topo_route {
	pci_addr nic, gpu, landing; /* landing == gpu: no relay */
};

/*
 * The route of gpu through nic. Of the NIC's GPUs the one is preferred that has the same rank as
 * gpu among the GPUs of its own NIC, so that the GPUs of a pair relay through different ones.
 * Errors of topo_pairing_check() if there is no relay: the NIC owns no GPU, or none that is
 * visible with peer access.
 */
tcpx_status topo_route(const struct topo_pairs *pairs, const struct topo_gpus *gpus, pci_addr nic,
		       pci_addr gpu, struct topo_route *out_route);

/*
 * All routes of gpu, the owner first, then by address of the NIC; NICs without a route are left
 * out. Returns how many; 0: gpu has no owner either.
 */
unsigned topo_routes(const struct topo_pairs *pairs, const struct topo_gpus *gpus, pci_addr gpu,
		     struct topo_route *out_routes, unsigned max);

#endif
