/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a node until all GPUs are ready, and its close. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "cli_gpu.h"
#include "cli_output.h"
#include "node.h"
#include "node_control.h"
#include "sys/cpu.h"

#define LOOK_MS 100

const char *node_end_name(const struct node *node, struct node_end end, char *buf, size_t cap)
{
	const struct node_hello *hello = &node->hellos[end.rank];

	snprintf(buf, cap, "rank %u (%s) GPU %u", end.rank, hello->host,
		 hello->gpus[end.gpu].number);
	return buf;
}

static void *stage_main(void *arg)
{
	struct node_gpu *gpu = arg;
	uint64_t one = 1;

	gpu->status = gpu->stage(gpu);
	if (gpu->status != TCPX_OK)
		gpu->error = *tcpx_last_error();
	atomic_store(&gpu->ended, true);
	if (write(gpu->node->done_fd, &one, sizeof(one)) < 0)
		return NULL; /* ended is checked at every turn as well */
	return NULL;
}

/* Waits until all threads have ended and watches the control link meanwhile. */
static tcpx_status watch(struct node *node, uint32_t started)
{
	tcpx_status status = TCPX_OK;
	uint64_t count;

	for (uint32_t i = 0; i < started;) {
		struct pollfd fds[] = {{.fd = node->done_fd, .events = POLLIN},
				       {.fd = node_control_fd(node->control), .events = POLLIN}};

		if (atomic_load(&node->gpus[i].ended)) {
			pthread_join(node->gpus[i++].thread, NULL);
			continue;
		}
		(void)poll(fds, 2, LOOK_MS);
		if (fds[0].revents && read(node->done_fd, &count, sizeof(count)) < 0)
			continue;
		if (status == TCPX_OK)
			status = node_control_look(node->control);
		if (status != TCPX_OK)
			atomic_store(&node->stop, true);
	}
	return status;
}

tcpx_status node_each(struct node *node, tcpx_status (*stage)(struct node_gpu *))
{
	uint32_t started = 0;
	tcpx_status status = TCPX_OK, watched;

	while (started < node->ngpus && status == TCPX_OK) {
		struct node_gpu *gpu = &node->gpus[started];

		gpu->stage = stage;
		atomic_store(&gpu->ended, false);
		status = sys_thread_start(&gpu->thread, "tcpx-node", stage_main, gpu);
		started += status == TCPX_OK;
	}
	watched = watch(node, started);
	if (watched != TCPX_OK)
		return watched; /* the failure of another rank is why the threads ended */
	for (uint32_t i = 0; i < started && status == TCPX_OK; i++) {
		tcpx_error error = node->gpus[i].error;

		if (node->gpus[i].status == TCPX_OK)
			continue;
		status = error_set(error.status, error.system_errno, "GPU %u: %.300s",
				   node->gpus[i].number, error.what);
		if (*error.next)
			error_next("%s", error.next);
	}
	return status;
}

static void node_setup_say(const struct node *node, const char *what, uint32_t count, uint32_t of,
			   const char *note)
{
	if (!node->say)
		return;
	printf("%s %u/%u%s\n", what, count, of, note);
	(void)cli_flush(stdout);
}

/* Describes a link that lacks channels: "GPU 0 to rank 1 (host) GPU 0: up, 1 of 2 channels".
 * NULL: it is complete. */
static const char *lacks(const struct node_gpu *gpu, const struct node_link *link, char *buf,
			 size_t cap)
{
	char far[160];

	if (link->up && link->channels >= link->want)
		return NULL;
	text_format(buf, cap, "GPU %u to %s: %s, %u of %u channels%s%s", gpu->number,
		    node_end_name(gpu->node, link->far, far, sizeof(far)),
		    link->up ? "up" : "not connected", link->channels, link->want,
		    *link->missing ? ": " : "", link->missing);
	return buf;
}

/* Says what is missing and how long the wait goes on. */
static void say_missing(const struct node *node, int64_t left_ns)
{
	char text[512];
	unsigned lines = 0;

	for (uint32_t i = 0; i < node->ngpus; i++)
		for (uint32_t k = 0; k < node->gpus[i].nlinks; k++)
			if (lacks(&node->gpus[i], &node->gpus[i].links[k], text, sizeof(text)) &&
			    lines++ < 16)
				cli_error("waiting: %s", text);
	if (lines > 16)
		cli_error("waiting: and %u more", lines - 16);
	if (lines && left_ns > 0)
		cli_error("waiting: for %lld s more",
			  (long long)((left_ns + CLOCK_S_NS / 2) / CLOCK_S_NS));
}

/* The failure names the first missing link, also for the other ranks. */
static tcpx_status too_late(const struct node *node, uint32_t channels, uint32_t of)
{
	char text[512] = "";
	bool found = false;

	for (uint32_t i = 0; i < node->ngpus && !found; i++)
		for (uint32_t k = 0; k < node->gpus[i].nlinks && !found; k++)
			found = lacks(&node->gpus[i], &node->gpus[i].links[k], text, sizeof(text));
	return error_set(TCPX_ERR_TIMED_OUT, 0, "%u of %u channels are up after %.0f s; %s",
			 channels, of, node->options->timeout, text);
}

static uint32_t node_wanted(const struct node_gpu *gpu)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < gpu->nlinks; i++)
		sum += gpu->links[i].want;
	return sum;
}

struct counts {
	uint32_t links, all_links, channels, all_channels;
};

static tcpx_status node_setup_count(struct node *node, struct counts *out)
{
	tcpx_status status = TCPX_OK;

	*out = (struct counts){0};
	for (uint32_t i = 0; i < node->ngpus && status == TCPX_OK; i++) {
		struct node_gpu *gpu = &node->gpus[i];
		uint32_t links, channels;

		status = node_gpu_look(gpu, &links, &channels);
		out->links += links;
		out->channels += channels;
		out->all_links += gpu->nlinks;
		out->all_channels += node_wanted(gpu);
	}
	return status;
}

/* Polls all sessions of the node and the control session. */
static void await_events(const struct node *node)
{
	struct pollfd fds[NODE_GPUS_MAX + 1];

	for (uint32_t i = 0; i < node->ngpus; i++)
		fds[i] = (struct pollfd){.fd = tcpx_session_fd(node->gpus[i].session),
					 .events = POLLIN};
	fds[node->ngpus] = (struct pollfd){.fd = node_control_fd(node->control), .events = POLLIN};
	(void)poll(fds, node->ngpus + 1, LOOK_MS);
}

static tcpx_status await_links(struct node *node, struct counts *out)
{
	int64_t now = clock_now_ns();
	struct node_pace pace = node_pace_start(now, NODE_PACE_NS);
	int64_t end = now + (int64_t)(node->options->timeout * 1e9);
	tcpx_status status;

	for (;;) {
		status = node_setup_count(node, out);
		if (status == TCPX_OK && out->channels == out->all_channels &&
		    out->links == out->all_links)
			return TCPX_OK;
		if (status == TCPX_OK)
			status = node_control_look(node->control);
		now = clock_now_ns();
		if (node_pace_due(&pace, now) || (status == TCPX_OK && now >= end))
			say_missing(node, end - now);
		if (status == TCPX_OK && now >= end)
			status = too_late(node, out->channels, out->all_channels);
		if (status != TCPX_OK)
			return status;
		await_events(node);
	}
}

static tcpx_status node_setup_connect_all(struct node *node)
{
	struct counts counts;
	tcpx_status status;

	node_control_stage(node->control, "channels");
	status = node_each(node, node_gpu_dial);

	if (status == TCPX_OK)
		status = await_links(node, &counts);
	if (status != TCPX_OK)
		return status;
	node_setup_say(node, "channels created",
		       counts.links * counts.all_channels / counts.all_links, counts.all_channels,
		       "");
	status = node_control_barrier(node->control, "channels");
	if (status == TCPX_OK)
		node_setup_say(node, "channels accepted", counts.channels, counts.all_channels, "");
	return status;
}

static tcpx_status register_all(struct node *node)
{
	uint32_t channels = 0;
	tcpx_status status;

	node_control_stage(node->control, "memory");
	status = node_each(node, node_gpu_register);

	if (status == TCPX_OK)
		status = node_share_tokens(node);
	if (status == TCPX_OK)
		status = node_each(node, node_gpu_prepare);
	for (uint32_t i = 0; i < node->ngpus; i++)
		channels += node_wanted(&node->gpus[i]);
	if (status == TCPX_OK)
		status = node_control_barrier(node->control, "registered");
	if (status == TCPX_OK)
		node_setup_say(node, "memory registered", channels, channels, "");
	return status;
}

/* Finds the GPUs without creating a context. */
tcpx_status node_find_gpus(struct node *node)
{
	uint32_t count = 0;
	int version;
	tcpx_status status = TCPX_OK;

	if (node->options->mem != NODE_MEM_HOST) {
		status = cli_gpu_count(&count, &version);
		if (status != TCPX_OK && node->options->mem == NODE_MEM_CUDA)
			return status;
		node->gpu_memory = status == TCPX_OK;
	}
	for (uint32_t i = 0; node->gpu_memory && i < node->ngpus; i++) {
		uint32_t number = node->gpus[i].number;
		struct cli_gpu gpu;

		/* A launcher may show each task only its own GPU. */
		node->gpus[i].ordinal = node->options->local_rank && count == 1 ? 0 : number;
		if (node->gpus[i].ordinal >= count)
			return error_set(TCPX_ERR_NOT_FOUND, 0,
					 "--gpus %s: this process sees %u GPU%s",
					 node->options->gpus, count, count == 1 ? "" : "s");
		status = cli_gpu_get(node->gpus[i].ordinal, &gpu);
		if (status != TCPX_OK)
			return status;
		snprintf(node->gpus[i].pci, sizeof(node->gpus[i].pci), "%s", gpu.pci);
	}
	return TCPX_OK;
}

tcpx_status node_setup(struct node *node)
{
	int64_t began = clock_now_ns();
	tcpx_status status;

	node->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	status = node->done_fd < 0 ? error_set(TCPX_ERR_SYSTEM, errno, "eventfd") : TCPX_OK;
	if (status == TCPX_OK)
		status = node_meet(node);
	if (status == TCPX_OK && node->launched)
		launch_meet_over(&node->meet); /* the rendezvous holds a secret */
	if (status == TCPX_OK)
		status = node_plan(node);
	if (status == TCPX_OK)
		status = node_each(node, node_gpu_open);
	if (status == TCPX_OK) {
		node_setup_say(node, "GPUs initialised", node->ngpus, node->ngpus,
			       node->gpu_memory ? "" : " (host memory in place of each GPU)");
		status = node_share_contacts(node);
	}
	if (status == TCPX_OK)
		status = node_setup_connect_all(node);
	if (status == TCPX_OK)
		status = register_all(node);
	node->ready_ns = (uint64_t)(clock_now_ns() - began);
	if (status == TCPX_OK && node->say) {
		printf("=== ALL GPUs READY ===\n");
		(void)cli_flush(stdout);
	}
	return status;
}

void node_close(struct node *node)
{
	for (uint32_t i = 0; i < node->ngpus; i++)
		node_gpu_close(&node->gpus[i]);
	if (node->done_fd > 0)
		close(node->done_fd);
	free(node->hellos);
	free(node->contacts);
	free(node->tokens);
}
