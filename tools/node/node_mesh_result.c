/* SPDX-License-Identifier: Apache-2.0 */
/* The mesh as a matrix: one row per sender, one column per receiver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli_json.h"
#include "cli_output.h"
#include "node.h"
#include "node_control.h"

#define GIGA 1e9
#define SHOWN 32 /* most ends for which the matrix is printed; larger ones are in the JSON only */

/* Cells of all pairs of ends, at from * count + to. */
struct matrix {
	struct node_cell *cells;
	struct node_end *ends;
	uint32_t count;
	double median, least, most; /* B/s, over the measured cells */
	uint64_t measured, wrong;
};

/* Adds the rows of a rank: rates of what its ends posted, wrong bytes of what they received. */
static void merge(struct matrix *m, const struct node *node, uint32_t first, uint32_t ngpus,
		  const struct node_cell *rows)
{
	bool reads = node->options->op == NODE_READ;

	for (uint32_t self = first; self < first + ngpus; self++)
		for (uint32_t far = 0; far < m->count; far++) {
			const struct node_cell *it = &rows[(size_t)(self - first) * m->count + far];
			struct node_cell *out = &m->cells[(size_t)self * m->count + far];
			struct node_cell *in = &m->cells[(size_t)far * m->count + self];
			struct node_cell *posted = reads ? in : out;

			posted->rate = it->rate;
			posted->least = it->least;
			posted->most = it->most;
			in->wrong += it->wrong;
			m->wrong += it->wrong;
		}
}

static int node_mesh_result_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static tcpx_status sum_up(struct matrix *m)
{
	size_t all = (size_t)m->count * m->count;
	double *rates = calloc(all, sizeof(*rates));

	if (!rates)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "the mesh");
	for (size_t i = 0; i < all; i++)
		if (m->cells[i].rate > 0)
			rates[m->measured++] = m->cells[i].rate;
	qsort(rates, m->measured, sizeof(*rates), node_mesh_result_by_value);
	if (m->measured) {
		m->median = (rates[(m->measured - 1) / 2] + rates[m->measured / 2]) / 2;
		m->least = rates[0];
		m->most = rates[m->measured - 1];
	}
	free(rates);
	return TCPX_OK;
}

static tcpx_status build(struct matrix *m, const struct node *node, const struct node_blob *blobs)
{
	uint32_t at = 0;

	m->count = node_end_at(node->hellos, (struct node_end){node->size, 0});
	m->cells = calloc((size_t)m->count * m->count, sizeof(*m->cells));
	m->ends = calloc(m->count, sizeof(*m->ends));
	if (!m->cells || !m->ends)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "the mesh");
	for (uint32_t rank = 0; rank < node->size; rank++) {
		uint32_t ngpus = node->hellos[rank].ngpus;

		if (blobs[rank].bytes != (size_t)ngpus * m->count * sizeof(struct node_cell))
			return error_set(TCPX_ERR_PROTOCOL, 0, "rank %u sent %zu bytes of rates",
					 rank, blobs[rank].bytes);
		merge(m, node, at, ngpus, blobs[rank].data);
		for (uint32_t gpu = 0; gpu < ngpus; gpu++)
			m->ends[at++] = (struct node_end){rank, gpu};
	}
	return sum_up(m);
}

static unsigned node_mesh_result_number_of(const struct node *node, struct node_end end)
{
	return node->hellos[end.rank].gpus[end.gpu].number;
}

static void node_mesh_result_print_matrix(const struct node *node, const struct matrix *m)
{
	char name[24];

	printf("GB/s from \\ to");
	for (uint32_t to = 0; to < m->count; to++) {
		snprintf(name, sizeof(name), "r%u g%u", m->ends[to].rank,
			 node_mesh_result_number_of(node, m->ends[to]));
		printf(" %8s", name);
	}
	printf("\n");
	for (uint32_t from = 0; from < m->count; from++) {
		snprintf(name, sizeof(name), "r%u g%u", m->ends[from].rank,
			 node_mesh_result_number_of(node, m->ends[from]));
		printf("%14s", name);
		for (uint32_t to = 0; to < m->count; to++) {
			const struct node_cell *cell = &m->cells[(size_t)from * m->count + to];

			if (cell->rate > 0)
				printf(" %8.3f", cell->rate / GIGA);
			else
				printf(" %8s", "-");
		}
		printf("\n");
	}
}

static void print_mesh(const struct node *node, const struct matrix *m)
{
	char text[BYTES_TEXT_MAX];

	for (uint32_t rank = 0; rank < node->size; rank++)
		printf("r%u is %s\n", rank, node->hellos[rank].host);
	if (m->count <= SHOWN)
		node_mesh_result_print_matrix(node, m);
	else
		printf("the matrix of %u GPUs is in --json; 'tcpx report' draws it\n", m->count);
	printf("# %llu transfers of %s a link and direction, %llu times, every byte %s\n",
	       (unsigned long long)node->windows * node->slots,
	       bytes_format(node->options->size, text, sizeof(text)),
	       (unsigned long long)node->options->repeat,
	       node_compares(node) ? "compared" : NODE_NOT_COMPARED);
	printf("%llu links: median %.3f GB/s, least %.3f, most %.3f   %llu wrong bytes\n",
	       (unsigned long long)m->measured, m->median / GIGA, m->least / GIGA, m->most / GIGA,
	       (unsigned long long)m->wrong);
}

static void put_rank(struct cli_json *ranks, const struct node *node, uint32_t rank)
{
	const struct node_hello *hello = &node->hellos[rank];
	struct cli_json *o = cli_json_object(ranks, NULL);
	struct cli_json *gpus = o ? cli_json_array(o, "gpus") : NULL;

	if (!gpus)
		return;
	cli_json_integer(o, "rank", rank);
	cli_json_text(o, "host", hello->host);
	for (uint32_t i = 0; i < hello->ngpus; i++) {
		struct cli_json *gpu = cli_json_object(gpus, NULL);
		uint32_t at = node_end_at(node->hellos, (struct node_end){rank, i});

		cli_json_integer(gpu, "gpu", hello->gpus[i].number);
		cli_json_text(gpu, "address", hello->gpus[i].pci);
		cli_json_text(gpu, "nic", node->contacts[at].nic);
	}
}

static void put_end(struct cli_json *cell, const char *name, const struct node *node,
		    struct node_end end)
{
	struct cli_json *pair = cli_json_array(cell, name);

	cli_json_integer(pair, NULL, end.rank);
	cli_json_integer(pair, NULL, node_mesh_result_number_of(node, end));
}

static void put_cells(struct cli_json *json, const struct node *node, const struct matrix *m)
{
	struct cli_json *cells = cli_json_array(json, "cells"), *o;

	for (size_t i = 0; cells && i < (size_t)m->count * m->count; i++) {
		const struct node_cell *cell = &m->cells[i];

		if (cell->rate <= 0 && !cell->wrong)
			continue;
		o = cli_json_object(cells, NULL);
		if (!o)
			return;
		put_end(o, "from", node, m->ends[i / m->count]);
		put_end(o, "to", node, m->ends[i % m->count]);
		cli_json_real(o, "rate", cell->rate);
		cli_json_real(o, "least", cell->least);
		cli_json_real(o, "most", cell->most);
		cli_json_integer(o, "wrong", cell->wrong);
	}
}

static int node_mesh_result_write_json(const struct node *node, const struct matrix *m)
{
	FILE *out = cli_json_open(node->options->json);
	struct cli_json *json = out ? cli_json_new() : NULL, *units, *ranks;
	char op[16];
	int rc;

	if (!json)
		return CLI_FAILED;
	cli_json_integer(json, "schema", 1);
	cli_json_text(json, "tool", "mesh");
	cli_json_text(json, "version", tcpx_version());
	units = cli_json_object(json, "units");
	cli_json_text(units, "time", "s");
	cli_json_text(units, "size", "B");
	cli_json_text(units, "rate", "B/s");
	cli_json_text(json, "op", cli_choice_text(NODE_OPS, node->options->op, op, sizeof(op)));
	cli_json_integer(json, "size", node->options->size);
	cli_json_integer(json, "iters", (uint64_t)node->windows * node->slots);
	cli_json_integer(json, "repeat", node->options->repeat);
	ranks = cli_json_array(json, "ranks");
	for (uint32_t rank = 0; ranks && rank < node->size; rank++)
		put_rank(ranks, node, rank);
	put_cells(json, node, m);
	cli_json_text(json, "verdict", m->wrong ? "wrong data" : "ok");
	rc = cli_json_write(json, out, node->options->json) ? CLI_FAILED : CLI_OK;
	cli_json_free(json);
	return rc;
}

/* On rank 0, which is the only one with the rates. */
static tcpx_status node_mesh_result_show(const struct node *node, const struct node_blob *blobs,
					 int *out_rc, uint64_t *out_wrong)
{
	struct matrix m = {.count = 0};
	tcpx_status status = build(&m, node, blobs);

	if (status == TCPX_OK) {
		print_mesh(node, &m);
		*out_wrong = m.wrong;
		if (node->options->json)
			*out_rc = node_mesh_result_write_json(node, &m);
	}
	free(m.cells);
	free(m.ends);
	return status;
}

tcpx_status node_mesh_result(struct node *node, int *out_rc)
{
	uint32_t count = node_end_at(node->hellos, (struct node_end){node->size, 0});
	size_t bytes = (size_t)node->ngpus * count * sizeof(*node->cells);
	struct node_blob *blobs = calloc(node->size, sizeof(*blobs));
	uint64_t wrong = 0;
	tcpx_status status = blobs ? TCPX_OK : error_set(TCPX_ERR_NO_MEMORY, 0, "the mesh");

	if (status == TCPX_OK)
		status = node_control_collect(node->control, "results", node->cells, bytes, blobs);
	if (status == TCPX_OK && !node->rank)
		status = node_mesh_result_show(node, blobs, out_rc, &wrong);
	if (status == TCPX_OK)
		status =
			node_control_gather(node->control, "verdict", &wrong, sizeof(wrong), blobs);
	if (status == TCPX_OK && blobs[0].bytes == sizeof(wrong))
		memcpy(&wrong, blobs[0].data, sizeof(wrong));
	free(blobs);
	if (status == TCPX_OK && wrong) {
		cli_error("%llu bytes are wrong", (unsigned long long)wrong);
		*out_rc = CLI_WRONG_DATA;
	}
	return status;
}
