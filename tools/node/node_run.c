/* SPDX-License-Identifier: Apache-2.0 */
/* The windows of a run: fill, barrier, move, barrier, compare every byte. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli_output.h"
#include "node.h"
#include "node_control.h"
#include "perf_meter.h"

#define LOOK_NS (200 * CLOCK_MS_NS) /* how often stop is checked while no request ends */

static bool sends(const struct node_gpu *gpu)
{
	return gpu->node->options->op == NODE_SEND;
}

/* Whether this end posts the requests of a direction; for READ the receiving end does. */
static bool posts(const struct node_gpu *gpu, const struct node_link *link)
{
	return gpu->node->options->op == NODE_READ ? link->in : link->out;
}

static bool far_posts(const struct node_gpu *gpu, const struct node_link *link)
{
	return gpu->node->options->op == NODE_READ ? link->out : link->in;
}

static uint64_t area_bytes(const struct node_gpu *gpu)
{
	return (uint64_t)gpu->node->slots * gpu->node->options->size;
}

static uint8_t *area_of(const struct node_gpu *gpu, const struct perf_buffer *buffer, uint32_t link)
{
	return (uint8_t *)buffer->addr + node_area(gpu->node, link) * area_bytes(gpu);
}

static uint64_t node_run_key_of(uint64_t seed, const struct node_gpu *gpu)
{
	return perf_pattern_key(seed, gpu->node->window, 0);
}

static tcpx_status run_fill(struct node_gpu *gpu)
{
	struct perf_leave leave = node_leave(gpu->node);
	tcpx_status status = TCPX_OK;

	for (uint32_t i = 0; i < gpu->nlinks && status == TCPX_OK; i++) {
		uint8_t *src = area_of(gpu, &gpu->src, i), *dst = area_of(gpu, &gpu->dst, i);
		uint64_t key = node_run_key_of(gpu->links[i].seed_out, gpu);

		if (!gpu->links[i].out && !gpu->links[i].in)
			continue;
		status = gpu->gpu ? perf_gpu_fill(gpu->gpu, src, dst, area_bytes(gpu), key, &leave)
				  : perf_fill(src, dst, area_bytes(gpu), key, &leave);
	}
	return status;
}

bool node_compares(const struct node *node)
{
	return node->options->transport != NODE_GPUDIRECT ||
	       strcmp(cli_plugin_unpack(), CLI_UNPACK_NONE) != 0;
}

static tcpx_status run_compare(struct node_gpu *gpu)
{
	struct node *node = gpu->node;
	struct perf_leave leave = node_leave(node);
	tcpx_status status = TCPX_OK;

	if (!node_compares(node))
		return TCPX_OK; /* --unpack none drops the bytes on purpose */
	for (uint32_t i = 0; i < gpu->nlinks && status == TCPX_OK; i++) {
		struct node_link *link = &gpu->links[i];
		uint8_t *dst = area_of(gpu, &gpu->dst, i);
		uint64_t key = node_run_key_of(link->seed_in, gpu);
		struct perf_wrong wrong = {0};

		if (!link->in)
			continue;
		status = gpu->gpu ? perf_gpu_check(gpu->gpu, &gpu->layout, dst, node->used, key,
						   &leave, &wrong)
				  : perf_layout_check(&gpu->layout, dst, node->used, key, &leave,
						      &wrong);
		gpu->row.wrong += wrong.count;
		gpu->row.checked += area_bytes(gpu);
	}
	return status;
}

static tcpx_status request_failed(struct node_gpu *gpu, struct node_link *link,
				  tcpx_request request)
{
	tcpx_error error = {.sz = sizeof(error)};
	char text[160];

	if (tcpx_request_error(gpu->session, request, &error) != TCPX_OK)
		error = *tcpx_last_error();
	return error_set(error.status ? error.status : TCPX_ERR_REMOTE, 0, "transfer with %s: %s",
			 node_end_name(gpu->node, link->far, text, sizeof(text)), error.what);
}

static tcpx_status post_all(struct node_gpu *gpu, bool receives)
{
	tcpx_status status = TCPX_OK;

	for (uint32_t slot = 0; slot < gpu->node->used; slot++)
		for (uint32_t i = 0; i < gpu->nlinks && status == TCPX_OK; i++) {
			struct node_link *link = &gpu->links[i];
			struct node_lane *lane = receives ? &link->receives : &link->requests;

			if (!(receives ? link->in : posts(gpu, link)))
				continue;
			status = tcpx_request_post(gpu->session, lane->slots[slot]);
			*lane->left += status == TCPX_OK;
		}
	return status;
}

/* Takes completions, notifications and events; events that are not taken would end every wait at
 * once. */
static tcpx_status node_run_take(struct node_gpu *gpu)
{
	tcpx_completion ends[64] = {{.sz = sizeof(ends[0])}};
	tcpx_notification n = {.sz = sizeof(n)};
	tcpx_event event = {.sz = sizeof(event)};
	int got;

	while ((got = tcpx_session_poll(gpu->session, ends, 64)) > 0)
		for (int i = 0; i < got; i++) {
			struct node_lane *lane = ends[i].user;

			if (ends[i].status != TCPX_OK)
				return request_failed(gpu, lane->link, ends[i].request);
			(*lane->left)--;
		}
	while (tcpx_notify_take(gpu->session, 0, &n) == TCPX_OK) {
		tcpx_notification_release(gpu->session, &n);
		gpu->left_others--;
	}
	while (tcpx_session_event(gpu->session, &event) == TCPX_OK)
		continue;
	return (tcpx_status)got;
}

/* Waits until the count is 0. */
static tcpx_status await(struct node_gpu *gpu, const uint32_t *left)
{
	tcpx_status status = node_run_take(gpu);

	while (status == TCPX_OK && *left) {
		status = tcpx_session_wait(gpu->session, LOOK_NS);
		if (status == TCPX_IN_PROGRESS && atomic_load(&gpu->node->stop))
			return error_set(TCPX_ERR_CANCELLED, 0, "the run is over");
		if (status >= TCPX_OK)
			status = node_run_take(gpu);
	}
	return status;
}

static uint64_t since(const struct node_gpu *gpu)
{
	return (uint64_t)clock_now_ns() - gpu->began_ns;
}

/* Peers notify when the requests that they posted to this end are over, so that the time is
 * taken by the clock of this end. */
static uint32_t others(const struct node_gpu *gpu)
{
	uint32_t wanted = 0;

	for (uint32_t i = 0; i < gpu->nlinks; i++)
		wanted += far_posts(gpu, &gpu->links[i]);
	return wanted;
}

static tcpx_status tell_others(struct node_gpu *gpu)
{
	tcpx_status status = TCPX_OK;

	for (uint32_t i = 0; i < gpu->nlinks && status == TCPX_OK; i++)
		if (posts(gpu, &gpu->links[i]))
			status = tcpx_notify_send(gpu->session, gpu->links[i].peer, "", 1);
	return status;
}

static void node_run_count(struct node_gpu *gpu, uint64_t ns_own, uint64_t ns_others)
{
	uint64_t bytes = (uint64_t)gpu->node->used * gpu->node->options->size;
	bool reads = gpu->node->options->op == NODE_READ;

	for (uint32_t i = 0; i < gpu->nlinks; i++) {
		gpu->row.bytes_out += gpu->links[i].out ? bytes : 0;
		gpu->row.bytes_in += gpu->links[i].in ? bytes : 0;
		gpu->came |= gpu->links[i].in;
	}
	gpu->row.ns_out += reads ? ns_others : ns_own;
	gpu->row.ns_in += reads ? ns_own : ns_others;
	/* Transfers in flight at the same time get equal shares of it. */
	for (uint32_t i = 0; i < gpu->node->used && gpu->told < NODE_TOLD_MAX; i++)
		gpu->told_ns[gpu->told++] =
			(ns_own > ns_others ? ns_own : ns_others) / gpu->node->used;
}

static tcpx_status run_move(struct node_gpu *gpu)
{
	uint64_t own = 0;
	tcpx_status status = TCPX_OK;

	gpu->left_out = gpu->left_in = 0;
	gpu->left_others = sends(gpu) ? 0 : others(gpu);
	if (sends(gpu))
		status = post_all(gpu, true);
	gpu->began_ns = gpu->node->began_ns;
	if (status == TCPX_OK)
		status = post_all(gpu, false);
	if (status == TCPX_OK)
		status = await(gpu, &gpu->left_out);
	own = since(gpu);
	if (status == TCPX_OK && sends(gpu))
		status = await(gpu, &gpu->left_in);
	else if (status == TCPX_OK)
		status = tell_others(gpu);
	if (status == TCPX_OK && !sends(gpu))
		status = await(gpu, &gpu->left_others);
	if (status == TCPX_OK) {
		node_run_count(gpu, own, since(gpu));
		node_gpu_carriers(gpu);
	}
	return status;
}

tcpx_status node_window(struct node *node, uint32_t window)
{
	uint64_t cpu_ns;
	uint32_t left = (uint32_t)node->options->iters - window * node->slots;
	tcpx_status status;

	node->window = window;
	node->used = left < node->slots ? left : node->slots;
	status = node_each(node, run_fill);
	if (status == TCPX_OK)
		status = node_control_barrier(node->control, "filled");
	node_control_stage(node->control, "transfer");
	cpu_ns = perf_cpu_ns();
	node->began_ns = (uint64_t)clock_now_ns();
	if (status == TCPX_OK)
		status = node_each(node, run_move);
	node->elapsed_ns += (uint64_t)clock_now_ns() - node->began_ns;
	node->cpu_ns += perf_cpu_ns() - cpu_ns;
	if (status == TCPX_OK)
		status = node_control_barrier(node->control, "moved");
	if (status == TCPX_OK)
		status = node_each(node, run_compare);
	return status;
}

/* An unmeasured window, which warms up routes, TCP windows and caches. */
static tcpx_status warm_up(struct node *node)
{
	tcpx_status status = node_window(node, 0);

	for (uint32_t i = 0; i < node->ngpus; i++) {
		struct node_row *row = &node->gpus[i].row;

		*row = (struct node_row){.wrong = row->wrong, .checked = row->checked};
		node->gpus[i].told = 0;
	}
	node->elapsed_ns = node->cpu_ns = 0;
	return status;
}

tcpx_status node_run(struct node *node)
{
	tcpx_status status = warm_up(node);

	for (uint32_t window = 0; window < node->windows && status == TCPX_OK; window++) {
		if (node->say)
			cli_live("moving memory, window %u of %u", window + 1, node->windows);
		status = node_window(node, window);
	}
	cli_live("%s", "");
	for (uint32_t i = 0; i < node->ngpus; i++) {
		struct node_gpu *gpu = &node->gpus[i];

		gpu->row.links = gpu->nlinks;
		for (uint32_t k = 0; k < gpu->nlinks; k++)
			gpu->row.channels += gpu->links[k].channels;
	}
	return status;
}
