/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a machine is made of: GPUs, NICs, the PCI bridges above them and the NUMA nodes. A scan of
 * sysfs fills it; what a plugin or a driver knows besides is added by its address. Once filled it
 * is only read, by any thread. A device is known by its PCI address, never by a position here.
 */
#ifndef TOPO_GRAPH_H
#define TOPO_GRAPH_H

#include <net/if.h>

#include <tcpx/types.h>

#include "base/cpus.h"
#include "base/pci.h"

#define TOPO_NICS_MAX 256 /* virtual functions included; what is beyond is left out and logged */
#define TOPO_GPUS_MAX 64
#define TOPO_NODES_MAX 64
#define TOPO_BRIDGES_MAX 16  /* from the root port down */
#define TOPO_NUMA_UNKNOWN -1 /* sysfs says -1 in many virtual machines */

#define TOPO_VENDOR_NVIDIA 0x10de

/* How a machine holds one PCI function. */
struct topo_place {
	pci_addr pci;
	int located;   /* 0: added by its address alone; its distance to others is not known */
	uint64_t root; /* the host bridge: domain << 8 | bus */
	unsigned nbridges;
	pci_addr bridges[TOPO_BRIDGES_MAX]; /* above it, the root port first */
	int numa;			    /* node, or TOPO_NUMA_UNKNOWN */
	uint16_t vendor, device;
};

struct topo_gpu {
	struct topo_place place;
};

/* A network interface of a PCI function. Two interfaces may be one function's. */
struct topo_nic {
	struct topo_place place;
	char name[IF_NAMESIZE];
	char driver[32];     /* "gve"; "": none said */
	char mac[24];	     /* "42:01:0a:80:00:02" */
	char state[16];	     /* operstate: "up", "down", "unknown" */
	uint64_t speed_mbps; /* 0: not said */
	unsigned mtu;	     /* 0: not said */
};

struct topo_node {
	int id;
	char cpus[CPUS_TEXT]; /* "0-51,104-155"; "": none, or not known */
};

struct topo {
	struct topo_gpu gpus[TOPO_GPUS_MAX]; /* by address */
	struct topo_nic nics[TOPO_NICS_MAX]; /* by address, then by name */
	struct topo_node nodes[TOPO_NODES_MAX];
	unsigned ngpus, nnics, nnodes;
	/* Interfaces of no PCI function (veth, a bridge; not loopback), by name: shown, and nothing
	 * else; they have no place, and nothing pairs with them. */
	struct topo_nic virtuals[TOPO_NICS_MAX];
	unsigned nvirtuals;
};

/* Between two functions, nearest first, by the names that NVIDIA's tools gave them. */
enum topo_distance {
	TOPO_PIX,  /* at most one bridge between: one switch */
	TOPO_PXB,  /* several bridges, below one root port */
	TOPO_PHB,  /* through the host bridge */
	TOPO_NODE, /* through the interconnect of two host bridges of one NUMA node */
	TOPO_SYS,  /* through that between NUMA nodes */
	TOPO_FAR,  /* not known */
};

/* Scans the tree at root ("/sys", or a recorded one). What is missing or malformed in it is left
 * out: an empty folder is a machine of nothing. The caller frees it by topo_free(). ERR_NO_MEMORY;
 * ERR_NOT_FOUND: root is no folder. */
tcpx_status topo_scan(const char *root, struct topo **out_topo);
void topo_free(struct topo *topo); /* NULL is allowed */

/* A device that the scan did not see, by its address; one that it saw stays as it is (a NIC without
 * a name gets it). Before the graph is shared. ERR_INVALID: no address; ERR_LIMIT. */
tcpx_status topo_add_gpu(struct topo *topo, pci_addr pci);
tcpx_status topo_add_nic(struct topo *topo, pci_addr pci, const char *name);

/* NULL: none. A NIC by its address: the first by name where a function has several. */
const struct topo_gpu *topo_gpu_at(const struct topo *topo, pci_addr pci);
const struct topo_nic *topo_nic_at(const struct topo *topo, pci_addr pci);
const struct topo_nic *topo_nic_named(const struct topo *topo, const char *name);

/* CPUs of a node as the kernel writes them; of TOPO_NUMA_UNKNOWN: the only node's. NULL: not
 * known. */
const char *topo_node_cpus(const struct topo *topo, int node);

/* TOPO_FAR when one of them is not located. Nodes that are not known are the same one on a machine
 * that has a single one. */
enum topo_distance topo_distance(const struct topo *topo, const struct topo_place *a,
				 const struct topo_place *b);
const char *topo_distance_name(enum topo_distance distance); /* "PIX" */

/* 1 when both hold the same GPUs and NICs at the same places, and the same nodes; else 0, and in
 * why what is different first, as b has it. A node that only one of them knows is no difference
 * where the machine has a single one. */
int topo_same(const struct topo *a, const struct topo *b, char *why, size_t cap);

#endif
