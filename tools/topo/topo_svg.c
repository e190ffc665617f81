/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx topo as a picture: the matrix, GPUs and NICs grouped by their NUMA nodes. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli_output.h"
#include "topo_view.h"

enum {
	LEFT = 206,  /* left margin: room for the node and "GPU10 0000:04:00.0" */
	CELL_W = 64, /* least width of the column of a NIC */
	CELL_H = 24, /* a line */
	GAP = 10,    /* between nodes */
	CHAR_W = 8,  /* greatest width of a letter */
};

/* By distance, the nearest darkest. */
static const char *const fills[] = {"#1b7837", "#5aae61", "#a6dba0",
				    "#d9f0d3", "#f2e6cf", "#eeeeee"};

struct picture {
	const struct topo_view *view;
	FILE *out;
	/* devices in the order of rows and columns */
	unsigned gpus[TOPO_GPUS_MAX], nics[TOPO_NICS_MAX];
	int cell_w, y;
};

static void topo_svg_put_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else
			fputc(*text, out);
	}
}

static void topo_svg_put_text(struct picture *p, int x, int y, const char *style,
			      const char *format, ...) __attribute__((format(printf, 5, 6)));

static void topo_svg_put_text(struct picture *p, int x, int y, const char *style,
			      const char *format, ...)
{
	char text[CPUS_TEXT + 64];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(p->out, "<text x=\"%d\" y=\"%d\"%s>", x, y, style);
	topo_svg_put_escaped(p->out, text);
	fputs("</text>\n", p->out);
}

/* Unknown nodes come last. */
static unsigned topo_svg_rank(int numa)
{
	return (unsigned)numa;
}

static int gpu_numa(const struct picture *p, unsigned row)
{
	return p->view->topo->gpus[p->gpus[row]].place.numa;
}

static int nic_numa(const struct picture *p, unsigned column)
{
	return p->view->topo->nics[p->nics[column]].place.numa;
}

/* Stable sort, so that devices of a node stay in the order of their addresses. */
static void group(struct picture *p)
{
	const struct topo *topo = p->view->topo;
	unsigned i, k;

	for (i = 0; i < topo->ngpus; i++) {
		for (k = i; k && topo_svg_rank(gpu_numa(p, k - 1)) >
					 topo_svg_rank(topo->gpus[i].place.numa);
		     k--)
			p->gpus[k] = p->gpus[k - 1];
		p->gpus[k] = i;
	}
	for (i = 0; i < topo->nnics; i++) {
		for (k = i; k && topo_svg_rank(nic_numa(p, k - 1)) >
					 topo_svg_rank(topo->nics[i].place.numa);
		     k--)
			p->nics[k] = p->nics[k - 1];
		p->nics[k] = i;
	}
}

static int column_x(const struct picture *p, unsigned column)
{
	int x = LEFT;

	for (unsigned k = 1; k <= column; k++)
		x += p->cell_w + (nic_numa(p, k) != nic_numa(p, k - 1) ? GAP : 0);
	return x;
}

static void put_node_name(struct picture *p, int x, int y, int numa)
{
	if (numa == TOPO_NUMA_UNKNOWN)
		topo_svg_put_text(p, x, y, " class=\"node\"", "node ?");
	else
		topo_svg_put_text(p, x, y, " class=\"node\"", "node %d", numa);
}

static void put_columns(struct picture *p)
{
	const struct topo *topo = p->view->topo;

	for (unsigned k = 0; k < topo->nnics; k++) {
		int x = column_x(p, k) + 4;

		if (!k || nic_numa(p, k) != nic_numa(p, k - 1))
			put_node_name(p, x, p->y + 16, nic_numa(p, k));
		topo_svg_put_text(p, x, p->y + CELL_H + 16, "", "%s", topo->nics[p->nics[k]].name);
	}
	p->y += 2 * CELL_H;
}

static void put_cell(struct picture *p, int x, unsigned gpu, unsigned nic)
{
	enum topo_distance far = topo_view_distance(p->view, gpu, nic);
	int owns = topo_view_owns(p->view, gpu, nic);

	fprintf(p->out,
		"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"%s><title>GPU%u ", x,
		p->y, p->cell_w - 3, CELL_H - 3, fills[far], owns ? " class=\"owner\"" : "", gpu);
	topo_svg_put_escaped(p->out, p->view->topo->nics[nic].name);
	fprintf(p->out, " %s%s</title></rect>\n", topo_view_cell(far), owns ? ", its owner" : "");
	topo_svg_put_text(p, x + 8, p->y + 15, far <= TOPO_PXB ? " fill=\"#fff\"" : "", "%s%s",
			  topo_view_cell(far), owns ? "*" : "");
}

static void put_rows(struct picture *p)
{
	const struct topo *topo = p->view->topo;
	char pci[PCI_TEXT_MAX];

	for (unsigned i = 0; i < topo->ngpus; i++) {
		unsigned gpu = p->gpus[i];

		if (i && gpu_numa(p, i) != gpu_numa(p, i - 1))
			p->y += GAP;
		if (!i || gpu_numa(p, i) != gpu_numa(p, i - 1))
			put_node_name(p, 8, p->y + 15, gpu_numa(p, i));
		topo_svg_put_text(p, 60, p->y + 15, "", "GPU%u %s", gpu,
				  pci_format(topo->gpus[gpu].place.pci, pci));
		for (unsigned k = 0; k < topo->nnics; k++)
			put_cell(p, column_x(p, k), gpu, p->nics[k]);
		p->y += CELL_H;
	}
	p->y += GAP;
}

static void put_line(struct picture *p, const char *what, const char *text)
{
	p->y += CELL_H - 4;
	topo_svg_put_text(p, 8, p->y, "", "%s%s", what, text);
}

static void put_nic_lines(struct picture *p, const struct topo_nic *nics, unsigned count)
{
	char pci[PCI_TEXT_MAX], speed[32], line[128];

	for (unsigned i = 0; i < count; i++) {
		const struct topo_nic *nic = &nics[i];

		snprintf(line, sizeof(line), ": %s, %s, %s, %s",
			 nic->place.pci == PCI_NONE ? "virtual" : pci_format(nic->place.pci, pci),
			 *nic->driver ? nic->driver : "-",
			 topo_view_speed(nic->speed_mbps, speed, sizeof(speed)),
			 *nic->state ? nic->state : "-");
		put_line(p, nic->name, line);
	}
}

static const char *const legend[] = {
	"PIX: at most one bridge between, one switch; PXB: several bridges of one root port",
	"PHB: through the CPU's host bridge; NODE: another host bridge of the NUMA node",
	"SYS: another NUMA node",
	"owner by a3vm: by RxDM's preset for A3 hosts; by PCIe: the nearest NIC",
};
#define LEGEND_LINES (sizeof(legend) / sizeof(legend[0]))

static void put_lists(struct picture *p)
{
	const struct topo *topo = p->view->topo;
	char name[32], pci[PCI_TEXT_MAX], line[TOPO_VIEW_NAME + 64];

	for (unsigned i = 0; i < topo->nnodes; i++) {
		snprintf(name, sizeof(name), "node %d: CPUs ", topo->nodes[i].id);
		put_line(p, name, *topo->nodes[i].cpus ? topo->nodes[i].cpus : "-");
	}
	for (unsigned i = 0; i < topo->ngpus; i++) {
		const struct topo_owner *owner = &p->view->pairs.owners[i];

		snprintf(name, sizeof(name), "GPU%u: ", i);
		snprintf(line, sizeof(line), "%s, %s, owner %s by %s",
			 pci_format(topo->gpus[i].place.pci, pci),
			 *p->view->names[i] ? p->view->names[i] : "-",
			 *owner->nic_name ? owner->nic_name : "none", topo_view_source(owner));
		put_line(p, name, line);
	}
	put_nic_lines(p, topo->nics, topo->nnics);
	put_nic_lines(p, topo->virtuals, topo->nvirtuals);
	for (unsigned i = 0; i < LEGEND_LINES && topo->ngpus && topo->nnics; i++)
		put_line(p, "", legend[i]);
}

/* Computes the size of the picture before drawing. */
static void size_of(const struct picture *p, int *out_width, int *out_height)
{
	const struct topo *topo = p->view->topo;
	unsigned lines = topo->nnodes + topo->ngpus + topo->nnics + topo->nvirtuals;
	int width = 640, height = 40 + (int)lines * (CELL_H - 4);

	for (unsigned i = 0; i < topo->nnodes; i++) {
		int w = ((int)strlen(topo->nodes[i].cpus) + 18) * CHAR_W;

		width = w > width ? w : width;
	}
	if (topo->ngpus && topo->nnics) {
		int w = column_x(p, topo->nnics - 1) + p->cell_w + GAP;

		width = w > width ? w : width;
		height += (int)(topo->ngpus + 2) * CELL_H + GAP;
		height += (int)LEGEND_LINES * (CELL_H - 4);
		for (unsigned i = 1; i < topo->ngpus; i++)
			height += gpu_numa(p, i) != gpu_numa(p, i - 1) ? GAP : 0;
	}
	*out_width = width;
	*out_height = height;
}

void topo_svg_write(const struct topo_view *view, FILE *out)
{
	struct picture p = {.view = view, .out = out, .cell_w = CELL_W};
	int width, height;

	for (unsigned k = 0; k < view->topo->nnics; k++) {
		int w = (int)strlen(view->topo->nics[k].name) * CHAR_W + GAP;

		p.cell_w = w > p.cell_w ? w : p.cell_w;
	}
	group(&p);
	size_of(&p, &width, &height);
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"font-family=\"monospace\" font-size=\"12\">\n"
		"<style>.node{font-weight:bold} .owner{stroke:#000;stroke-width:2.5}</style>\n"
		"%s<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		width, height, CLI_SVG_DARK);
	topo_svg_put_text(&p, 8, 18, "", "GPUs and NICs; * and a frame: the NIC that owns the GPU");
	p.y = 24;
	if (view->topo->ngpus && view->topo->nnics) {
		put_columns(&p);
		put_rows(&p);
	}
	put_lists(&p);
	fputs("</svg>\n", out);
}
