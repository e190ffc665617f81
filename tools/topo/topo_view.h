/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of tcpx topo: the graph of a machine, owners and names of GPUs, CPUs near them. */
#ifndef TOOLS_TOPO_VIEW_H
#define TOOLS_TOPO_VIEW_H

#include <stdio.h>

#include "base/cpus.h"
#include "cli_json.h"
#include "topo/graph.h"
#include "topo/pairing.h"
#include "topo/nearby.h"

#define TOPO_VIEW_NAME 96

struct topo_view {
	struct topo *topo; /* its texts are made printable */
	struct topo_pairs pairs;
	char names[TOPO_GPUS_MAX][TOPO_VIEW_NAME]; /* names of GPUs; "": unknown */
	/* index of each GPU at the source of the names; meaningless without one */
	int visible[TOPO_GPUS_MAX];
	const char *names_by; /* source of the names: "NVML", "CUDA"; NULL: none */
	char scan[160];	      /* "sysfs", and what hwloc says */
	char rxdm[160];	      /* "answers", or why RxDM did not */
	int asked;	      /* RxDM was */
	int recorded;	      /* a recorded machine */
	struct cpus allowed;  /* CPUs of this process; for a recorded machine those of all nodes */
};

/* Scans root. On this machine (recorded 0) also asks the driver for names and, if rxdm is set,
 * RxDM. Returns CLI_OK, or an exit code after a line on stderr. The caller calls
 * topo_view_free() in any case. */
int topo_view_fill(struct topo_view *view, const char *root, int recorded, int rxdm);
void topo_view_free(struct topo_view *view);

/* Distance of GPU gpu and NIC nic, by index in the graph. */
enum topo_distance topo_view_distance(const struct topo_view *view, unsigned gpu, unsigned nic);
const char *topo_view_cell(enum topo_distance distance); /* "PIX"; "-": not known */
int topo_view_owns(const struct topo_view *view, unsigned gpu, unsigned nic);

const char *topo_view_source(const struct topo_owner *owner); /* "a3vm", "PCIe", "none" */
const char *topo_view_rxdm(const struct topo_view *view, const struct topo_owner *owner);

/* CPUs near GPU gpu and its owner, in the format of the kernel; "": unknown. Returns buf. */
enum topo_near topo_view_cpus(const struct topo_view *view, unsigned gpu, char buf[CPUS_TEXT]);

/* "200 Gbit/s"; "-": unknown. Returns buf. */
char *topo_view_speed(uint64_t mbps, char *buf, size_t cap);

/* The three output formats. */
void topo_text_print(const struct topo_view *view);
void topo_json_put(const struct topo_view *view, struct cli_json *json);
void topo_svg_write(const struct topo_view *view, FILE *out);

#endif
