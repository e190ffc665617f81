/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of a machine: its GPUs, NICs, PCI bridges and NUMA nodes. A scan of sysfs fills the
 * graph in. Devices that only a plugin or a driver knows are added by their PCI address. After that
 * the graph does not change, so any thread may read it. A device is identified by its PCI address;
 * its index in an array has no meaning.
 */
#ifndef TOPO_GRAPH_H
#define TOPO_GRAPH_H

#include <net/if.h>

#include <tcpx/types.h>

#include "base/cpus.h"
#include "base/pci.h"

/* most NICs, counting virtual functions; further ones are left out and logged */
#define TOPO_NICS_MAX 256
#define TOPO_GPUS_MAX 64
#define TOPO_NODES_MAX 64
#define TOPO_BRIDGES_MAX 16  /* most bridges between a device and its host bridge */
#define TOPO_NUMA_UNKNOWN -1 /* sysfs reports -1 in many virtual machines */

#define TOPO_VENDOR_NVIDIA 0x10de

/* The place of a PCI device (more precisely, of a PCI function) in the machine. */
struct topo_place {
	pci_addr pci;
	int located;   /* 0 if only its address is known, not its distances */
	uint64_t root; /* the host bridge above it: domain << 8 | bus */
	unsigned nbridges;
	pci_addr bridges[TOPO_BRIDGES_MAX]; /* the bridges above it, the root port first */
	int numa;			    /* NUMA node, or TOPO_NUMA_UNKNOWN */
	uint16_t vendor, device;	    /* PCI ids */
};

struct topo_gpu {
	struct topo_place place;
};

/* A network interface of a PCI function. A PCI function may have several. */
struct topo_nic {
	struct topo_place place;
	char name[IF_NAMESIZE];
	char driver[32];     /* such as "gve"; "" if unknown */
	char mac[24];	     /* such as "42:01:0a:80:00:02" */
	char state[16];	     /* such as "up" or "down", from sysfs (operstate) */
	uint64_t speed_mbps; /* 0 if unknown */
	unsigned mtu;	     /* 0 if unknown */
};

/* A NUMA node. */
struct topo_node {
	int id;
	char cpus[CPUS_TEXT]; /* such as "0-51,104-155"; "" if none or unknown */
};

struct topo {
	struct topo_gpu gpus[TOPO_GPUS_MAX]; /* sorted by PCI address */
	struct topo_nic nics[TOPO_NICS_MAX]; /* sorted by PCI address, then by name */
	struct topo_node nodes[TOPO_NODES_MAX];
	unsigned ngpus, nnics, nnodes;
	/* Interfaces without a PCI function, such as veth and network bridges, except loopback.
	 * Sorted by name. They are for display only: they have no place and are paired with no
	 * GPU. */
	struct topo_nic virtuals[TOPO_NICS_MAX];
	unsigned nvirtuals;
};

/* The distance between two PCI devices, from the smallest to the largest. The names are those of
 * NVIDIA's tools. */
enum topo_distance {
	/* below one PCI switch: each has at most one bridge that the other does not have */
	TOPO_PIX,
	TOPO_PXB,  /* below one root port, but one has several bridges that the other lacks */
	TOPO_PHB,  /* below one host bridge, without a common bridge below it */
	TOPO_NODE, /* below different host bridges of one NUMA node */
	TOPO_SYS,  /* below host bridges of different or unknown NUMA nodes */
	TOPO_FAR,  /* unknown, because a device is not located */
};

/* Makes the graph from the sysfs tree at `root`, "/sys" or a recorded tree. Missing and malformed
 * parts are left out, so an empty folder gives an empty graph. The caller frees the graph by
 * topo_free(). Returns ERR_NO_MEMORY, or ERR_NOT_FOUND if `root` is not a folder. */
tcpx_status topo_scan(const char *root, struct topo **out_topo);
void topo_free(struct topo *topo); /* NULL is allowed */

/* Add a device by its PCI address. If the graph already has the device, nothing changes, except
 * that a NIC without a name gets `name`. Must not be called once other threads read the graph.
 * Return ERR_INVALID for PCI_NONE, ERR_LIMIT if the graph has no room. */
tcpx_status topo_add_gpu(struct topo *topo, pci_addr pci);
tcpx_status topo_add_nic(struct topo *topo, pci_addr pci, const char *name);

/* Return the device in `gpus` or `nics` with that address or name, or NULL if there is none. If a
 * PCI function has several NICs, topo_nic_at returns the first by name. */
const struct topo_gpu *topo_gpu_at(const struct topo *topo, pci_addr pci);
const struct topo_nic *topo_nic_at(const struct topo *topo, pci_addr pci);
const struct topo_nic *topo_nic_named(const struct topo *topo, const char *name);

/* Returns the CPUs of a node in the kernel's format; "" if there are none or they are unknown.
 * TOPO_NUMA_UNKNOWN stands for the machine's only node. Returns NULL if the graph does not have the
 * node. */
const char *topo_node_cpus(const struct topo *topo, int node);

/* Returns the distance between two places, or TOPO_FAR if one of them is not located. On a machine
 * with only one node, an unknown node is that node. */
enum topo_distance topo_distance(const struct topo *topo, const struct topo_place *a,
				 const struct topo_place *b);
const char *topo_distance_name(enum topo_distance distance); /* such as "PIX" */

/* Returns 1 if both graphs have the same nodes, and the same GPUs and NICs at the same places.
 * Otherwise returns 0 and writes the first difference, as it is in `b`, to `why`. On a machine with
 * only one node it makes no difference whether a device's node is known. */
int topo_same(const struct topo *a, const struct topo *b, char *why, size_t cap);

#endif
