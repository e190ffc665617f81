/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of a machine: GPUs, NICs, the PCI bridges above them and the NUMA nodes. A scan of
 * sysfs fills it in; devices that only a plugin or a driver knows are added by address. After that
 * it does not change, so any thread may read it. A PCI address identifies a device; indices in the
 * arrays have no meaning.
 */
#ifndef TOPO_GRAPH_H
#define TOPO_GRAPH_H

#include <net/if.h>

#include <tcpx/types.h>

#include "base/cpus.h"
#include "base/pci.h"

/* virtual functions included; if there are more, the others are left out and logged */
#define TOPO_NICS_MAX 256
#define TOPO_GPUS_MAX 64
#define TOPO_NODES_MAX 64
#define TOPO_BRIDGES_MAX 16  /* most bridges above a device, from the root port down */
#define TOPO_NUMA_UNKNOWN -1 /* the kernel's numa_node is -1 in many virtual machines */

#define TOPO_VENDOR_NVIDIA 0x10de

/* The place of a PCI device (a PCI function) in the machine. */
struct topo_place {
	pci_addr pci;
	int located;   /* 0: added by address only, so its distances are unknown */
	uint64_t root; /* its host bridge: domain << 8 | bus */
	unsigned nbridges;
	pci_addr bridges[TOPO_BRIDGES_MAX]; /* the bridges above it, the root port first */
	int numa;			    /* NUMA node, or TOPO_NUMA_UNKNOWN */
	uint16_t vendor, device;	    /* PCI ids */
};

struct topo_gpu {
	struct topo_place place;
};

/* A network interface of a PCI function, which may have several. */
struct topo_nic {
	struct topo_place place;
	char name[IF_NAMESIZE];
	char driver[32];     /* such as "gve"; "": unknown */
	char mac[24];	     /* such as "42:01:0a:80:00:02" */
	char state[16];	     /* operstate: "up", "down", "unknown" */
	uint64_t speed_mbps; /* 0: unknown */
	unsigned mtu;	     /* 0: unknown */
};

/* A NUMA node. */
struct topo_node {
	int id;
	char cpus[CPUS_TEXT]; /* such as "0-51,104-155"; "": none or unknown */
};

struct topo {
	struct topo_gpu gpus[TOPO_GPUS_MAX]; /* sorted by PCI address */
	struct topo_nic nics[TOPO_NICS_MAX]; /* sorted by PCI address, then by name */
	struct topo_node nodes[TOPO_NODES_MAX];
	unsigned ngpus, nnics, nnodes;
	/* Interfaces without a PCI function (veth, a bridge; not loopback), sorted by name. They
	 * are only shown: they have no place and are paired with no GPU. */
	struct topo_nic virtuals[TOPO_NICS_MAX];
	unsigned nvirtuals;
};

/* The distance between two PCI devices, the nearest first; the names are those of NVIDIA's
 * tools. */
enum topo_distance {
	/* at most one bridge more on each side than they have in common: below one switch */
	TOPO_PIX,
	TOPO_PXB,  /* several bridges, below one root port */
	TOPO_PHB,  /* through the host bridge */
	TOPO_NODE, /* through the interconnect of two host bridges of one NUMA node */
	TOPO_SYS,  /* through the interconnect between NUMA nodes */
	TOPO_FAR,  /* the distance is unknown */
};

/* Scans the tree at root ("/sys", or a recorded one). Missing or malformed parts are left out, so
 * an empty folder gives an empty graph. The caller frees the graph by topo_free(). ERR_NO_MEMORY;
 * ERR_NOT_FOUND: root is not a folder. */
tcpx_status topo_scan(const char *root, struct topo **out_topo);
void topo_free(struct topo *topo); /* NULL is allowed */

/* Add a device that the scan did not find, by address. A device that the graph has is not
 * changed, except that a NIC without a name gets this one. Must not be called once other threads
 * read the graph. ERR_INVALID: no address; ERR_LIMIT: too many devices. */
tcpx_status topo_add_gpu(struct topo *topo, pci_addr pci);
tcpx_status topo_add_nic(struct topo *topo, pci_addr pci, const char *name);

/* Return the device with that address or name; NULL: not found. If a PCI function has several
 * NICs, topo_nic_at returns the first by name. */
const struct topo_gpu *topo_gpu_at(const struct topo *topo, pci_addr pci);
const struct topo_nic *topo_nic_at(const struct topo *topo, pci_addr pci);
const struct topo_nic *topo_nic_named(const struct topo *topo, const char *name);

/* Returns the CPUs of a node in the kernel's format; for TOPO_NUMA_UNKNOWN those of the only
 * node. NULL: unknown. */
const char *topo_node_cpus(const struct topo *topo, int node);

/* Returns the distance between two places; TOPO_FAR if one of them is not located. On a machine
 * with one node an unknown node is that node. */
enum topo_distance topo_distance(const struct topo *topo, const struct topo_place *a,
				 const struct topo_place *b);
const char *topo_distance_name(enum topo_distance distance); /* such as "PIX" */

/* Returns 1 if both graphs have the same GPUs and NICs at the same places and the same nodes. Else
 * returns 0 and writes the first difference, as it is in b, to why. On a machine with one node it
 * is no difference if a device's node is unknown in one graph. */
int topo_same(const struct topo *a, const struct topo *b, char *why, size_t cap);

#endif
