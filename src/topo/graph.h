/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of a machine: GPUs, NICs, the PCI bridges above them and the NUMA nodes. A scan of
 * sysfs fills it; devices that only a plugin or a driver knows are added by address. After that it
 * is read-only, for any thread. A PCI address identifies a device; positions in the arrays have no
 * meaning.
 */
#ifndef TOPO_GRAPH_H
#define TOPO_GRAPH_H

#include <net/if.h>

#include <tcpx/types.h>

#include "base/cpus.h"
#include "base/pci.h"

#define TOPO_NICS_MAX 256 /* virtual functions included; more are left out and logged */
#define TOPO_GPUS_MAX 64
#define TOPO_NODES_MAX 64
#define TOPO_BRIDGES_MAX 16  /* bridges above a function, from the root port down */
#define TOPO_NUMA_UNKNOWN -1 /* sysfs says -1 in many virtual machines */

#define TOPO_VENDOR_NVIDIA 0x10de

/* The place of a PCI function in the machine. */
struct topo_place {
	pci_addr pci;
	int located;   /* 0: added by address only; its distances are unknown */
	uint64_t root; /* the host bridge: domain << 8 | bus */
	unsigned nbridges;
	pci_addr bridges[TOPO_BRIDGES_MAX]; /* bridges above it, the root port first */
	int numa;			    /* node, or TOPO_NUMA_UNKNOWN */
	uint16_t vendor, device;
};

struct topo_gpu {
	struct topo_place place;
};

/* A network interface of a PCI function. A function may have two. */
struct topo_nic {
	struct topo_place place;
	char name[IF_NAMESIZE];
	char driver[32];     /* "gve"; "": unknown */
	char mac[24];	     /* "42:01:0a:80:00:02" */
	char state[16];	     /* operstate: "up", "down", "unknown" */
	uint64_t speed_mbps; /* 0: unknown */
	unsigned mtu;	     /* 0: unknown */
};

struct topo_node {
	int id;
	char cpus[CPUS_TEXT]; /* "0-51,104-155"; "": none or unknown */
};

struct topo {
	struct topo_gpu gpus[TOPO_GPUS_MAX]; /* sorted by address */
	struct topo_nic nics[TOPO_NICS_MAX]; /* sorted by address, then by name */
	struct topo_node nodes[TOPO_NODES_MAX];
	unsigned ngpus, nnics, nnodes;
	/* Interfaces without a PCI function (veth, a bridge; not loopback), by name. They are shown
	 * only; they have no place and pair with no GPU. */
	struct topo_nic virtuals[TOPO_NICS_MAX];
	unsigned nvirtuals;
};

/* The distance between two PCI functions, nearest first, with the names of NVIDIA's tools. */
enum topo_distance {
	TOPO_PIX,  /* at most one bridge in between, that is, one switch */
	TOPO_PXB,  /* several bridges, below one root port */
	TOPO_PHB,  /* through the host bridge */
	TOPO_NODE, /* through the interconnect of two host bridges of one NUMA node */
	TOPO_SYS,  /* through the interconnect between NUMA nodes */
	TOPO_FAR,  /* distance unknown */
};

/* Scans the tree at root ("/sys", or a recorded one). Missing or malformed parts are left out, so
 * an empty folder gives an empty graph. The caller frees it by topo_free(). ERR_NO_MEMORY;
 * ERR_NOT_FOUND: root is not a folder. */
tcpx_status topo_scan(const char *root, struct topo **out_topo);
void topo_free(struct topo *topo); /* NULL is allowed */

/* Adds a device that the scan did not find, by address; a known device is unchanged (a NIC without
 * a name gets it). To be called before the graph is shared. ERR_INVALID: no address; ERR_LIMIT. */
tcpx_status topo_add_gpu(struct topo *topo, pci_addr pci);
tcpx_status topo_add_nic(struct topo *topo, pci_addr pci, const char *name);

/* The device at that address, or with that name; NULL: not found. If a PCI function has several
 * NICs, the first one by name. */
const struct topo_gpu *topo_gpu_at(const struct topo *topo, pci_addr pci);
const struct topo_nic *topo_nic_at(const struct topo *topo, pci_addr pci);
const struct topo_nic *topo_nic_named(const struct topo *topo, const char *name);

/* CPUs of a node in the kernel's format; TOPO_NUMA_UNKNOWN: those of the only node. NULL:
 * unknown. */
const char *topo_node_cpus(const struct topo *topo, int node);

/* The distance between two PCI functions; TOPO_FAR if one of them is not located. On a machine
 * with one node, unknown nodes count as that node. */
enum topo_distance topo_distance(const struct topo *topo, const struct topo_place *a,
				 const struct topo_place *b);
const char *topo_distance_name(enum topo_distance distance); /* "PIX" */

/* Returns 1 if both have the same GPUs and NICs at the same places, and the same nodes; else 0,
 * with the first difference, as b has it, in why. On a machine with one node, a node that only one
 * of them knows is no difference. */
int topo_same(const struct topo *a, const struct topo *b, char *why, size_t cap);

#endif
