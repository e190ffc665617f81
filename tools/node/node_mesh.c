/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every link of every end, one direction after the other. Ends play in rounds, as in a tournament:
 * in each an end has one partner, so a link is measured beside others but never beside one of its
 * own ends. Pairs of one rank are not measured.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli_output.h"
#include "node.h"
#include "node_control.h"

static uint32_t ends_of(const struct node *node)
{
	return node_end_at(node->hellos, (struct node_end){node->size, 0});
}

/* The partner of an end in a round, by the circle method: of n players the last one keeps its
 * place, the others rotate. With an odd number one end pauses; its partner has the number count. */
static uint32_t partner(uint32_t end, uint32_t round, uint32_t count)
{
	uint32_t n = count + count % 2, turning = n - 1, sum;

	if (end == n - 1) /* it plays the end that would be its own partner */
		return round * (n / 2) % turning;
	sum = (round + turning - end % turning) % turning;
	return sum == end ? n - 1 : sum;
}

/* Enables the link and direction of this turn; NULL: this GPU pauses. */
static struct node_link *set_turn(struct node_gpu *gpu, uint32_t round, bool upward)
{
	const struct node *node = gpu->node;
	uint32_t self = node_end_at(node->hellos, (struct node_end){node->rank, gpu->index});
	uint32_t far = partner(self, round, ends_of(node));
	struct node_link *turn = NULL;

	for (uint32_t i = 0; i < gpu->nlinks; i++) {
		struct node_link *link = &gpu->links[i];
		bool it = node_end_at(node->hellos, link->far) == far;

		link->out = it && (self < far) == upward;
		link->in = it && !link->out;
		if (it)
			turn = link;
	}
	return turn;
}

static int node_mesh_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Measurements of one GPU in one turn. */
struct sample {
	struct node_link *link;
	double *rates; /* of --repeat */
	uint64_t wrong;
};

static void take_sample(struct node_gpu *gpu, struct sample *sample, uint32_t repeat)
{
	const struct node_row *row = &gpu->row;
	bool reads = gpu->node->options->op == NODE_READ;
	uint64_t bytes = reads ? row->bytes_in : row->bytes_out;
	uint64_t ns = reads ? row->ns_in : row->ns_out;

	sample->rates[repeat] = ns ? (double)bytes * 1e9 / (double)ns : 0;
	sample->wrong += row->wrong;
	gpu->row = (struct node_row){.wrong = 0};
}

/* Measures one direction of the links of a round. The first window warms up; it is compared as
 * well. */
static tcpx_status play(struct node *node, struct sample *samples)
{
	uint32_t repeats = (uint32_t)node->options->repeat;
	tcpx_status status = node_window(node, 0);

	for (uint32_t i = 0; i < node->ngpus; i++)
		take_sample(&node->gpus[i], &samples[i], 0);
	for (uint32_t k = 0; k < repeats && status == TCPX_OK; k++) {
		for (uint32_t w = 0; w < node->windows && status == TCPX_OK; w++)
			status = node_window(node, w);
		for (uint32_t i = 0; i < node->ngpus; i++)
			take_sample(&node->gpus[i], &samples[i], k);
	}
	return status;
}

static void note(struct node *node, struct node_gpu *gpu, struct sample *sample,
		 struct node_cell *cells)
{
	uint32_t repeats = (uint32_t)node->options->repeat;
	struct node_cell *cell;

	if (!sample->link)
		return;
	cell = &cells[(size_t)gpu->index * ends_of(node) +
		      node_end_at(node->hellos, sample->link->far)];
	cell->wrong += sample->wrong;
	if (node->options->op == NODE_READ ? !sample->link->in : !sample->link->out)
		return;
	qsort(sample->rates, repeats, sizeof(double), node_mesh_by_value);
	cell->rate = sample->rates[repeats / 2];
	cell->least = sample->rates[0];
	cell->most = sample->rates[repeats - 1];
}

static tcpx_status play_all(struct node *node, struct sample *samples, struct node_cell *cells)
{
	uint32_t count = ends_of(node), rounds = count + count % 2 - 1;
	tcpx_status status = TCPX_OK;

	for (uint32_t turn = 0; turn < 2 * rounds && status == TCPX_OK; turn++) {
		if (node->say)
			cli_live("measuring links, round %u of %u", turn + 1, 2 * rounds);
		for (uint32_t i = 0; i < node->ngpus; i++) {
			samples[i].wrong = 0;
			samples[i].link = set_turn(&node->gpus[i], turn / 2, turn % 2);
		}
		status = play(node, samples);
		for (uint32_t i = 0; i < node->ngpus && status == TCPX_OK; i++)
			note(node, &node->gpus[i], &samples[i], cells);
	}
	cli_live("%s", "");
	return status;
}

tcpx_status node_mesh(struct node *node)
{
	struct node_cell *cells = calloc((size_t)node->ngpus * ends_of(node), sizeof(*cells));
	double *rates = calloc((size_t)node->ngpus * node->options->repeat, sizeof(*rates));
	struct sample samples[NODE_GPUS_MAX] = {{0}};
	tcpx_status status =
		cells && rates ? TCPX_OK : error_set(TCPX_ERR_NO_MEMORY, 0, "cells of the mesh");

	for (uint32_t i = 0; i < node->ngpus; i++)
		samples[i].rates = rates ? rates + i * node->options->repeat : NULL;
	if (status == TCPX_OK)
		status = play_all(node, samples, cells);
	free(rates);
	if (status == TCPX_OK)
		node->cells = cells;
	else
		free(cells);
	return status;
}
