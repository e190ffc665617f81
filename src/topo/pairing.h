/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which NIC a GPU receives through. RxDM puts the rule of every flow on the NIC that owns the
 * *GPU*, wherever the flow arrives, and answers "Ok." all the same; so a receive on another NIC is
 * lost, and the plugin ends the process. None of RxDM's sockets names the owner
 * (docs/design/topo.md); it is derived, and RxDM's answers confirm or contradict it. Sending may
 * use any NIC.
 * Built once, then only read, by any thread.
 */
#ifndef TOPO_PAIRING_H
#define TOPO_PAIRING_H

#include "topo/graph.h"

enum topo_source {
	TOPO_SOURCE_NONE,   /* no owner: RxDM denies the GPU, or nothing says which */
	TOPO_SOURCE_PRESET, /* RxDM's own table for A3 hosts, "a3vm" */
	TOPO_SOURCE_PCIE,   /* the nearest, as RxDM's "auto" derives it */
};

/* What RxDM says about a GPU. */
enum topo_rxdm_answer {
	TOPO_RXDM_SILENT, /* not asked, not there, or too late */
	TOPO_RXDM_KNOWN,  /* it has queues, those of the list */
	TOPO_RXDM_DENIED, /* it has none */
};

struct topo_owner {
	pci_addr gpu, nic; /* nic: PCI_NONE when there is no owner */
	char nic_name[IF_NAMESIZE];
	enum topo_source source;
	enum topo_rxdm_answer rxdm;
};

struct topo_pairs {
	struct topo_owner owners[TOPO_GPUS_MAX]; /* by GPU address */
	unsigned count;
};

/* Asks RxDM for the queues of one GPU: at most max, their number in out_count. */
typedef enum topo_rxdm_answer (*topo_queues_fn)(void *arg, pci_addr gpu, int32_t *out_queues,
						unsigned max, unsigned *out_count);

/*
 * The owner of every GPU of the graph. Where all NICs of the preset are there, the preset says it
 * for the GPUs that it names; else the nearest NIC does (the lowest address of several). ask may be
 * NULL. A GPU that RxDM denies has no owner. GPUs of one NIC hold different queues of it: where two
 * that the preset gives one NIC hold the same queue the preset is not what RxDM runs, and
 * the nearest NIC counts; where the same is true of that, those GPUs have no owner.
 */
void topo_pairs_build(const struct topo *topo, topo_queues_fn ask, void *arg,
		      struct topo_pairs *out_pairs);

/* NULL: the GPU is not in the graph. */
const struct topo_owner *topo_owner_of(const struct topo_pairs *pairs, pci_addr gpu);

/* The NIC that gpu receives through. ERR_NOT_FOUND: none is known. */
tcpx_status topo_pairing(const struct topo_pairs *pairs, pci_addr gpu, pci_addr *out_nic);

/* OK when gpu receives through nic. ERR_UNSUPPORTED: it does not; the error names both addresses
 * and the owner, its next step what to do. */
tcpx_status topo_pairing_check(const struct topo_pairs *pairs, pci_addr nic, pci_addr gpu);

/* What a relay needs of GPUs; answered by whoever knows the driver. arg is the caller's. */
struct topo_gpus {
	int (*visible)(void *arg, pci_addr gpu);
	/* from can write into the memory of to */
	int (*reaches)(void *arg, pci_addr from, pci_addr to);
	void *arg;
};

/* How a GPU receives through a NIC: into pages of landing, its own or, by relay, the NIC's GPU's,
 * whose kernel writes over peer access into gpu. */
struct topo_route {
	pci_addr nic, gpu, landing; /* landing == gpu: no relay */
};

/*
 * The route of gpu through nic. Of the NIC's GPUs the one with gpu's rank among its owner's is
 * taken first, so that the GPUs of one pair relay by different ones. As topo_pairing_check() when
 * there is no relay: the NIC owns no GPU, or none that is visible with peer access.
 */
tcpx_status topo_route(const struct topo_pairs *pairs, const struct topo_gpus *gpus, pci_addr nic,
		       pci_addr gpu, struct topo_route *out_route);

/*
 * Routes of gpu through every NIC that can be used, the owner first, then by address; NICs without
 * a route are left out. Returns how many, 0: gpu has no owner either.
 */
unsigned topo_routes(const struct topo_pairs *pairs, const struct topo_gpus *gpus, pci_addr gpu,
		     struct topo_route *out_routes, unsigned max);

#endif
