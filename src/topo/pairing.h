/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the NIC through which each GPU receives, called its owner. RxDM installs the steering rule
 * of a flow on the owner, even if the flow arrives at another NIC, and answers "Ok." in both cases.
 * Data that arrives at another NIC is lost, and the plugin ends the process. None of RxDM's sockets
 * names the owner (docs/design/topo.md). The owner is therefore derived, and RxDM's answers may
 * refute it. Any NIC may be used for sending. topo_pairs_build() fills in a table of owners; after
 * that, any thread may read the table.
 */
#ifndef TOPO_PAIRING_H
#define TOPO_PAIRING_H

#include "topo/graph.h"

/* How the owner NIC of a GPU, through which it receives, was found. */
enum topo_source {
	/* no owner: RxDM does not know the GPU, no NIC's distance is known, or RxDM's queues show
	 * that the nearest NIC is not the owner */
	TOPO_SOURCE_NONE,
	TOPO_SOURCE_PRESET, /* from RxDM's own table for A3 hosts, "a3vm" */
	TOPO_SOURCE_PCIE,   /* the nearest NIC, as in RxDM's mode "auto" */
};

/* What RxDM answered when asked for the queues of a GPU. */
enum topo_rxdm_answer {
	TOPO_RXDM_SILENT, /* no usable answer in time, or RxDM was not asked */
	TOPO_RXDM_KNOWN,  /* RxDM named the GPU's queues */
	TOPO_RXDM_DENIED, /* a refusal: RxDM does not know the GPU */
};

/* The owner NIC of a GPU. */
struct topo_owner {
	pci_addr gpu, nic; /* `nic` is PCI_NONE if the GPU has no owner */
	char nic_name[IF_NAMESIZE];
	enum topo_source source;
	enum topo_rxdm_answer rxdm;
};

/* The owner NICs of all GPUs of the graph. */
struct topo_pairs {
	struct topo_owner owners[TOPO_GPUS_MAX]; /* sorted by GPU address */
	unsigned count;
};

/* A function that asks RxDM for the queues of one GPU. It writes at most `max` queues to
 * out_queues, and their number to *out_count. */
typedef enum topo_rxdm_answer (*topo_queues_fn)(void *arg, pci_addr gpu, int32_t *out_queues,
						unsigned max, unsigned *out_count);

/*
 * Finds the owner of every GPU in the graph. If the machine has all NICs of RxDM's preset, the
 * preset decides for the GPUs that it names. The owner of any other GPU is the nearest NIC; among
 * several, the one with the lowest address. A GPU that RxDM does not know has no owner. `ask` may
 * be NULL; RxDM is then not asked.
 *
 * Two GPUs that a NIC really owns have different queues. If two GPUs of one NIC in the preset have
 * a queue in common, RxDM uses another table, and their nearest NICs are taken. If two GPUs with
 * one nearest NIC have a queue in common, both have no owner.
 */
void topo_pairs_build(const struct topo *topo, topo_queues_fn ask, void *arg,
		      struct topo_pairs *out_pairs);

/* Returns the entry of a GPU, which may say that the GPU has no owner. Returns NULL if the GPU is
 * not in the graph. */
const struct topo_owner *topo_owner_of(const struct topo_pairs *pairs, pci_addr gpu);

/* Sets *out_nic to the NIC that owns `gpu`. Returns ERR_NOT_FOUND if the GPU has no
 * owner or is not in the graph. */
tcpx_status topo_pairing(const struct topo_pairs *pairs, pci_addr gpu, pci_addr *out_nic);

/* Checks that `nic` owns `gpu`. Returns ERR_UNSUPPORTED if another NIC does; the error names both
 * devices and the owner, and says what to do. Returns ERR_NOT_FOUND as topo_pairing() does. */
tcpx_status topo_pairing_check(const struct topo_pairs *pairs, pci_addr nic, pci_addr gpu);

/* Functions of the caller that topo_route() and topo_routes() use. They answer questions about GPUs
 * that need the driver. */
struct topo_gpus {
	/* whether this process can use the GPU */
	int (*visible)(void *arg, pci_addr gpu);
	/* whether GPU `from` can write to the memory of GPU `to` */
	int (*reaches)(void *arg, pci_addr from, pci_addr to);
	void *arg;
};

/* How a GPU receives through a NIC. Packets arrive in the memory of the GPU `landing`, which the
 * NIC owns. If `landing` is not `gpu`, a CUDA kernel on `landing` copies the bytes to `gpu` by peer
 * access. This is called a relay. */
struct topo_route {
	pci_addr nic, gpu, landing; /* landing == gpu: without a relay */
};

/*
 * Finds how `gpu` receives through `nic`. If `nic` owns `gpu`, packets arrive in the memory of
 * `gpu`. If another NIC owns `gpu`, packets must arrive in the memory of a GPU that `nic` owns.
 * This GPU must be visible and have peer access to `gpu`. Preferred is the GPU with the same index
 * among the GPUs of `nic` as `gpu` has among those of its owner, so that two GPUs of one owner
 * relay through different GPUs. Returns an error of topo_pairing_check() if there is no such GPU.
 */
tcpx_status topo_route(const struct topo_pairs *pairs, const struct topo_gpus *gpus, pci_addr nic,
		       pci_addr gpu, struct topo_route *out_route);

/*
 * Writes at most `max` routes of `gpu`: first the one through its owner, then the others in the
 * order of NIC addresses. Returns the number of routes, which is 0 if `gpu` is not in the graph.
 */
unsigned topo_routes(const struct topo_pairs *pairs, const struct topo_gpus *gpus, pci_addr gpu,
		     struct topo_route *out_routes, unsigned max);

#endif
