/* SPDX-License-Identifier: Apache-2.0 */
/* One GPU of a node: session, memory, links. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/config.h"
#include "base/error.h"
#include "base/text.h"
#include "node.h"

/* Most channels of a link, as documented for tcpx_session_opts. */
#define LINK_MOST 63
#define LINK_MESSAGES_MOST 62

static bool messages(const struct node *node)
{
	return node->options->transport >= NODE_PLUGIN;
}

uint32_t node_share(const struct node_options *options, uint32_t links)
{
	uint32_t all = (uint32_t)options->channels;
	uint32_t most = options->transport >= NODE_PLUGIN ? LINK_MESSAGES_MOST : LINK_MOST;
	uint32_t share = links && all > links ? all / links : 1;

	return share < most ? share : most;
}

static void session_name(const struct node *node, struct node_end end, char *buf, size_t cap)
{
	snprintf(buf, cap, "%.30s-r%u-g%u", node->job, end.rank, end.gpu);
}

static struct node_end node_gpu_self_of(const struct node_gpu *gpu)
{
	return (struct node_end){gpu->node->rank, gpu->index};
}

static tcpx_status node_gpu_open_session(struct node_gpu *gpu)
{
	const struct node_options *o = gpu->node->options;
	char name[TCPX_NAME_MAX + 1], advertise[NODE_ADVERTISE_MAX];
	TCPX_OPTS(tcpx_session_opts, opts, .name = name, .bind = o->bind, .key_file = o->key,
		  .channels = node_share(o, gpu->nlinks), .plugin = "", .advertise = advertise);
	tcpx_status status = node_advertise(o, (int)gpu->number, advertise);

	if (status != TCPX_OK)
		return status;
	session_name(gpu->node, node_gpu_self_of(gpu), name, sizeof(name));
	/* INFO_ONLY: contacts are exchanged over the control link only. */
	opts.flags |= o->insecure ? TCPX_SESSION_INSECURE : TCPX_SESSION_INFO_ONLY;
	if (o->transport == NODE_LOCAL)
		opts.flags |= TCPX_SESSION_LOCAL_ONLY;
	else if (o->no_local || o->transport != NODE_AUTO)
		opts.flags |= TCPX_SESSION_NO_LOCAL;
	if (messages(gpu->node)) {
		opts.plugin = o->plugin.file;
		opts.nic = *gpu->nic ? gpu->nic : NULL;
		opts.channels = 1; /* for control, host memory and small transfers */
		opts.plugin_channels = node_share(o, gpu->nlinks);
		if (gpu->gpu)
			opts.message_gpu = gpu->ordinal + 1;
	} else if (*gpu->nic) {
		opts.bind = gpu->nic;
	}
	return tcpx_session_open(&opts, &gpu->session);
}

tcpx_status node_gpu_open(struct node_gpu *gpu)
{
	const struct node_options *o = gpu->node->options;
	TCPX_OPTS(tcpx_listen_opts, listens,
		  .port = gpu->node->any_port ? 0 : (uint32_t)o->port_base + gpu->number,
		  .retries = o->advertise && *o->advertise
				     ? 0 /* the published port, or no port */
				     : (uint32_t)config_u64(CONFIG_PORT_RETRIES));
	tcpx_status status = TCPX_OK;
	uint16_t port;
	size_t len;

	if (gpu->node->gpu_memory)
		status = perf_gpu_open(gpu->ordinal, &gpu->gpu);
	if (status == TCPX_OK)
		status = node_gpu_open_session(gpu);
	if (status == TCPX_OK)
		status = tcpx_session_listen(gpu->session, &listens, &port);
	if (status == TCPX_OK)
		status = tcpx_session_info(gpu->session, gpu->contact.info,
					   sizeof(gpu->contact.info), &len);
	if (status == TCPX_OK)
		gpu->contact.info_bytes = (uint32_t)len;
	snprintf(gpu->contact.nic, sizeof(gpu->contact.nic), "%s", gpu->nic);
	return status;
}

static tcpx_status ask_stop(const void *arg)
{
	const struct node *node = arg;

	if (!atomic_load(&node->stop))
		return TCPX_OK;
	return error_set(TCPX_ERR_CANCELLED, 0, "the run is over");
}

struct perf_leave node_leave(const struct node *node)
{
	return (struct perf_leave){ask_stop, node};
}

tcpx_status node_gpu_register(struct node_gpu *gpu)
{
	const struct node_options *o = gpu->node->options;
	uint64_t area = (uint64_t)gpu->node->slots * o->size;
	uint64_t bytes = area * (gpu->nlinks && !gpu->node->shared_area ? gpu->nlinks : 1);
	enum tcpx_mem_kind kind = gpu->gpu ? TCPX_MEM_CUDA : TCPX_MEM_HOST;
	tcpx_status status = perf_buffer_open(&gpu->src, gpu->session, bytes, kind, gpu->gpu);
	char memory[BYTES_TEXT_MAX];

	if (status == TCPX_OK)
		status = perf_buffer_open(&gpu->dst, gpu->session, bytes, kind, gpu->gpu);
	/* GPU memory is taken by the allocation itself */
	if (status == TCPX_ERR_NO_MEMORY && gpu->gpu)
		return error_next("lower --memory (%s) or --size (two buffers a GPU)",
				  bytes_compact(gpu->node->memory, memory, sizeof(memory)));
	if (status == TCPX_OK)
		status = tcpx_region_export(gpu->session, gpu->src.region, gpu->tokens.src);
	if (status == TCPX_OK)
		status = tcpx_region_export(gpu->session, gpu->dst.region, gpu->tokens.dst);
	if (status == TCPX_OK && perf_layout_init(&gpu->layout, area, o->size, 1, 0))
		status = error_set(TCPX_ERR_NO_MEMORY, 0, "layout of the transfers");
	return status;
}

tcpx_status node_gpu_dial(struct node_gpu *gpu)
{
	struct node *node = gpu->node;
	TCPX_OPTS(tcpx_connect_opts, opts, .timeout_ns = (int64_t)(node->options->timeout * 1e9),
		  .nonblocking = 1);
	tcpx_status status = TCPX_OK;

	for (uint32_t i = 0; i < gpu->nlinks && status == TCPX_OK; i++) {
		struct node_link *link = &gpu->links[i];
		const struct node_contact *far =
			&node->contacts[node_end_at(node->hellos, link->far)];

		if (node_plan_dials(node_gpu_self_of(gpu), link->far))
			status = tcpx_session_connect(gpu->session, far->info, far->info_bytes,
						      &opts, &link->peer);
	}
	return status;
}

/* The error of a link that cannot come up, naming both ends; OK: it still may. */
static tcpx_status look_at(struct node_gpu *gpu, struct node_link *link)
{
	struct node *node = gpu->node;
	tcpx_peer_info info = {.sz = sizeof(info)};
	char name[TCPX_NAME_MAX + 1], text[160];
	tcpx_error error = {.sz = sizeof(error)};

	if (!link->peer.id) {
		session_name(node, link->far, name, sizeof(name));
		if (tcpx_peer_find(gpu->session, name, &link->peer) != TCPX_OK)
			return TCPX_OK;
	}
	if (tcpx_peer_error(gpu->session, link->peer, &error) == TCPX_OK && error.status)
		return error_set(error.status, 0, "link to %s: %s",
				 node_end_name(node, link->far, text, sizeof(text)), error.what);
	if (tcpx_peer_query(gpu->session, link->peer, &info) != TCPX_OK)
		return TCPX_OK;
	link->channels = messages(node) ? info.message_channels : info.channels;
	snprintf(link->transport, sizeof(link->transport), "%s", info.transport);
	text_format(link->missing, sizeof(link->missing), "%s",
		    messages(node) ? info.message_error : "");
	link->up = info.state == TCPX_PEER_UP;
	return TCPX_OK;
}

tcpx_status node_gpu_look(struct node_gpu *gpu, uint32_t *out_links, uint32_t *out_channels)
{
	uint32_t links = 0, channels = 0;
	tcpx_status status = TCPX_OK;
	tcpx_event event = {.sz = sizeof(event)};
	tcpx_peer peer;

	while (tcpx_session_event(gpu->session, &event) == TCPX_OK ||
	       tcpx_session_accept(gpu->session, 0, &peer) == TCPX_OK)
		continue;
	for (uint32_t i = 0; i < gpu->nlinks && status == TCPX_OK; i++) {
		struct node_link *link = &gpu->links[i];

		status = look_at(gpu, link);
		links += link->up;
		channels += link->channels < link->want ? link->channels : link->want;
	}
	*out_links = links;
	*out_channels = channels;
	return status;
}

static tcpx_status prepare_one(struct node_gpu *gpu, struct node_link *link, uint32_t at,
			       uint32_t slot)
{
	const struct node *node = gpu->node;
	uint64_t size = node->options->size, area = node->slots * size;
	uint64_t here = node_area(node, at) * area + slot * size;
	uint64_t there = node_area(node, link->far_link) * area + slot * size;
	tcpx_segment segment = {.local = gpu->src.region,
				.local_offset = here,
				.remote = link->remote,
				.remote_offset = there,
				.length = size};
	tcpx_segment receive = {.local = gpu->dst.region, .local_offset = here, .length = size};
	TCPX_OPTS(tcpx_request_opts, sending, .queue = 1, .user = &link->requests);
	TCPX_OPTS(tcpx_request_opts, receiving, .queue = 1, .user = &link->receives);
	tcpx_status status;

	if (node->options->op == NODE_READ)
		segment.local = gpu->dst.region;
	if (node->options->op != NODE_SEND)
		return tcpx_request_prepare(gpu->session, link->peer,
					    node->options->op == NODE_READ ? TCPX_OP_READ
									   : TCPX_OP_WRITE,
					    &segment, 1, &sending, &link->requests.slots[slot]);
	segment.remote = (tcpx_region){0};
	segment.remote_offset = 0;
	status = tcpx_request_prepare(gpu->session, link->peer, TCPX_OP_SEND, &segment, 1, &sending,
				      &link->requests.slots[slot]);
	if (status == TCPX_OK)
		status = tcpx_request_prepare(gpu->session, link->peer, TCPX_OP_RECV, &receive, 1,
					      &receiving, &link->receives.slots[slot]);
	return status;
}

static tcpx_status prepare_link(struct node_gpu *gpu, uint32_t at)
{
	struct node *node = gpu->node;
	struct node_link *link = &gpu->links[at];
	const struct node_tokens *far = &node->tokens[node_end_at(node->hellos, link->far)];
	tcpx_status status = TCPX_OK;

	link->requests = (struct node_lane){link, &gpu->left_out,
					    calloc(node->slots, sizeof(*link->requests.slots))};
	link->receives = (struct node_lane){link, &gpu->left_in,
					    calloc(node->slots, sizeof(*link->receives.slots))};
	if (!link->requests.slots || !link->receives.slots)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "requests of a link");
	if (node->options->op != NODE_SEND)
		status = tcpx_region_import(gpu->session, link->peer,
					    node->options->op == NODE_READ ? far->src : far->dst,
					    TCPX_TOKEN_BYTES, &link->remote);
	for (uint32_t slot = 0; slot < node->slots && status == TCPX_OK; slot++)
		status = prepare_one(gpu, link, at, slot);
	return status;
}

tcpx_status node_gpu_prepare(struct node_gpu *gpu)
{
	tcpx_status status = TCPX_OK;

	for (uint32_t i = 0; i < gpu->nlinks && status == TCPX_OK; i++)
		status = prepare_link(gpu, i);
	return status;
}

static void carrier_add(struct node_gpu *gpu, const char *nic, uint64_t messages)
{
	uint32_t i = 0;

	while (i < gpu->ncarriers && strcmp(gpu->carriers[i].nic, nic) != 0)
		i++;
	if (i == CLI_DEVMEM_NICS)
		return;
	if (i == gpu->ncarriers) {
		snprintf(gpu->carriers[i].nic, sizeof(gpu->carriers[i].nic), "%s", nic);
		gpu->carriers[i].messages = 0;
		gpu->ncarriers++;
	}
	gpu->carriers[i].messages += messages;
}

void node_gpu_carriers(struct node_gpu *gpu)
{
	tcpx_channel_info info = {.sz = sizeof(info)};

	gpu->ncarriers = 0;
	for (uint32_t i = 0; messages(gpu->node) && i < gpu->nlinks; i++)
		for (uint32_t k = 0;
		     tcpx_channel_query(gpu->session, gpu->links[i].peer, k, &info) == TCPX_OK; k++)
			if (info.messages) {
				carrier_add(gpu, info.nic, info.done);
				gpu->relayed |= info.relayed;
				memcpy(gpu->unpack, info.unpack, sizeof(gpu->unpack));
			}
}

void node_gpu_nics(const struct node_gpu *gpu, char text[NODE_NICS_TEXT])
{
	size_t used = 0;

	snprintf(text, NODE_NICS_TEXT, "%s", *gpu->nic ? gpu->nic : "-");
	for (uint32_t i = 0; i < gpu->ncarriers && used < NODE_NICS_TEXT; i++)
		used += (size_t)snprintf(text + used, NODE_NICS_TEXT - used, "%s%s", i ? "," : "",
					 gpu->carriers[i].nic);
}

static void lane_close(struct node_gpu *gpu, struct node_lane *lane)
{
	for (uint32_t s = 0; lane->slots && s < gpu->node->slots; s++)
		if (lane->slots[s].id)
			(void)tcpx_request_release(gpu->session, lane->slots[s]);
	free(lane->slots);
}

void node_gpu_close(struct node_gpu *gpu)
{
	for (uint32_t i = 0; i < gpu->nlinks; i++) {
		struct node_link *link = &gpu->links[i];

		lane_close(gpu, &link->requests);
		lane_close(gpu, &link->receives);
	}
	if (gpu->session) {
		perf_buffer_close(&gpu->src, gpu->session);
		perf_buffer_close(&gpu->dst, gpu->session);
	}
	tcpx_session_close(gpu->session);
	perf_layout_fini(&gpu->layout);
	perf_gpu_close(gpu->gpu);
	free(gpu->links);
}
