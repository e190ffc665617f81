/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC through which a GPU receives: its owner. RxDM puts the rule of every flow on the NIC
 * that owns the GPU, whichever NIC the flow arrives at, and answers "Ok." in any case; a receive
 * through another NIC is lost, and the plugin ends the process. None of RxDM's sockets names
 * the owner (docs/design/topo.md), so it is derived, and RxDM's answers confirm or refute it.
 * Sending may use any NIC. The table is built once and does not change, so any thread may read it.
 */
#ifndef TOPO_PAIRING_H
#define TOPO_PAIRING_H

#include "topo/graph.h"

/* How the owner NIC of a GPU was found. */
enum topo_source {
	/* the GPU has no owner: RxDM does not know the GPU, or nothing determines one */
	TOPO_SOURCE_NONE,
	TOPO_SOURCE_PRESET, /* RxDM's own table for A3 hosts, "a3vm" */
	TOPO_SOURCE_PCIE,   /* the nearest NIC, as RxDM's "auto" derives it */
};

/* RxDM's answer about the queues of a GPU. */
enum topo_rxdm_answer {
	TOPO_RXDM_SILENT, /* RxDM was not asked, or gave no usable answer in time */
	TOPO_RXDM_KNOWN,  /* the GPU has queues */
	TOPO_RXDM_DENIED, /* RxDM refused: it does not know the GPU */
};

/* The owner NIC of a GPU. */
struct topo_owner {
	pci_addr gpu, nic; /* nic: PCI_NONE if the GPU has no owner */
	char nic_name[IF_NAMESIZE];
	enum topo_source source;
	enum topo_rxdm_answer rxdm;
};

/* The owner NICs of all GPUs of the graph. */
struct topo_pairs {
	struct topo_owner owners[TOPO_GPUS_MAX]; /* sorted by GPU address */
	unsigned count;
};

/* Asks RxDM for the queues of one GPU: writes at most max queues to out_queues, and their number
 * to *out_count. */
typedef enum topo_rxdm_answer (*topo_queues_fn)(void *arg, pci_addr gpu, int32_t *out_queues,
						unsigned max, unsigned *out_count);

/*
 * Finds the owner of every GPU of the graph. If all NICs of the preset exist, the preset decides
 * for the GPUs that it names; for all others the nearest NIC is the owner (of several the one with
 * the lowest address). ask NULL: RxDM is not asked. A GPU that RxDM does not know has no owner.
 * GPUs of one NIC have different queues: so if two GPUs that the preset assigns to one NIC have a
 * queue in common, RxDM does not run the preset, and their nearest NIC is used; if two GPUs of one
 * nearest NIC have a queue in common, these GPUs have no owner.
 */
void topo_pairs_build(const struct topo *topo, topo_queues_fn ask, void *arg,
		      struct topo_pairs *out_pairs);

/* Returns the entry of a GPU, which may say that the GPU has no owner. NULL: the GPU is not in the
 * graph. */
const struct topo_owner *topo_owner_of(const struct topo_pairs *pairs, pci_addr gpu);

/* *out_nic: the NIC through which gpu receives. ERR_NOT_FOUND: the GPU has no owner or is not in
 * the graph. */
tcpx_status topo_pairing(const struct topo_pairs *pairs, pci_addr gpu, pci_addr *out_nic);

/* OK if gpu receives through nic. ERR_UNSUPPORTED: it does not; the error names both addresses and
 * the owner, and its next step says what to do. ERR_NOT_FOUND: as topo_pairing. */
tcpx_status topo_pairing_check(const struct topo_pairs *pairs, pci_addr nic, pci_addr gpu);

/* Questions about GPUs that topo_route() and topo_routes() ask the caller, who knows the driver. */
struct topo_gpus {
	/* whether this process can use the GPU */
	int (*visible)(void *arg, pci_addr gpu);
	/* whether GPU `from` can write to the memory of GPU `to` */
	int (*reaches)(void *arg, pci_addr from, pci_addr to);
	void *arg;
};

/* How a GPU receives through a NIC. The packets go to the memory of landing: of gpu itself, or of
 * another GPU that the NIC owns. In the second case a CUDA kernel on landing then copies the bytes
 * to gpu by peer access; this is called a relay. */
struct topo_route {
	pci_addr nic, gpu, landing; /* landing == gpu: no relay */
};

/*
 * Finds how gpu receives through nic. If nic does not own gpu, packets go to one of the GPUs that
 * nic owns: preferably to the one with the same index among the GPUs of its NIC as gpu has among
 * those of its own, so that the two GPUs of a NIC relay through different GPUs. If there is no
 * such GPU (nic owns none, or none that is visible and has peer access to gpu): errors of
 * topo_pairing_check().
 */
tcpx_status topo_route(const struct topo_pairs *pairs, const struct topo_gpus *gpus, pci_addr nic,
		       pci_addr gpu, struct topo_route *out_route);

/*
 * Writes all routes of gpu, at most max: the one through its owner first, then by address of the
 * NIC; NICs without a route are left out. Returns how many; 0: gpu has no route, or is not in the
 * graph.
 */
unsigned topo_routes(const struct topo_pairs *pairs, const struct topo_gpus *gpus, pci_addr gpu,
		     struct topo_route *out_routes, unsigned max);

#endif
