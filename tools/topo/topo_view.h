/* SPDX-License-Identifier: Apache-2.0 */
/* What tcpx topo shows: a machine's graph, who owns which GPU, names of GPUs, CPUs near them. */
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
	char names[TOPO_GPUS_MAX][TOPO_VIEW_NAME]; /* of GPUs; "": nobody says */
	int visible[TOPO_GPUS_MAX]; /* to who says the names; of no meaning where nobody does */
	const char *names_by;	    /* "NVML", "CUDA"; NULL: nobody says */
	char scan[160];		    /* "sysfs", and what hwloc says */
	char rxdm[160];		    /* "answers", or why it was not heard */
	int asked;		    /* RxDM was */
	int recorded;		    /* not this machine */
	struct cpus allowed; /* this process's CPUs; of a recorded machine all of its nodes' */
};

/* Scans root; of this machine (recorded 0) asks the driver for names and, if rxdm, RxDM. An exit
 * code after a line on stderr, or CLI_OK. The caller calls topo_view_free() in each case. */
int topo_view_fill(struct topo_view *view, const char *root, int recorded, int rxdm);
void topo_view_free(struct topo_view *view);

/* Of GPU number gpu (of the graph) and NIC number nic. */
enum topo_distance topo_view_distance(const struct topo_view *view, unsigned gpu, unsigned nic);
const char *topo_view_cell(enum topo_distance distance); /* "PIX"; "-": not known */
int topo_view_owns(const struct topo_view *view, unsigned gpu, unsigned nic);

const char *topo_view_source(const struct topo_owner *owner); /* "a3vm", "PCIe", "none" */
const char *topo_view_rxdm(const struct topo_view *view, const struct topo_owner *owner);

/* CPUs near GPU number gpu and its owner, in the kernel's form; "": none known. Returns buf. */
enum topo_near topo_view_cpus(const struct topo_view *view, unsigned gpu, char buf[CPUS_TEXT]);

/* "200 Gbit/s"; "-": not said. Returns buf. */
char *topo_view_speed(uint64_t mbps, char *buf, size_t cap);

/* The three forms. */
void topo_text_print(const struct topo_view *view);
void topo_json_put(const struct topo_view *view, struct cli_json *json);
void topo_svg_write(const struct topo_view *view, FILE *out);

#endif
