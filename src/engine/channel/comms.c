/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the plugin of a session, negotiates plugin channels with a peer, and decides which
 * transfers use them. */
#include "engine/channel/comms_env.h"
#include "engine/link/here.h"
#include "engine/channel/comms_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "sys/cuda.h"

#define PLUGIN_DEFAULT "default" /* value of TCPX_PLUGIN that means the installed TCPX plugin */
#define CHANNELS_ASKED 63u	 /* most plugin channels that may be requested */
#define CHANNELS_MOST                                                                              \
	(CORE_CHANNELS_MAX - 2u) /* most that open; leaves a priority and a stream channel */

static uint32_t smaller_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Creates the CUDA context of a GPU, unless it exists, and keeps it until the process ends: a
 * plugin is never unloaded, and its objects in the context live as long as the plugin. Creating a
 * context also takes 0.2 s. */
static tcpx_status gpu_context_keep(uint32_t gpu)
{
	static struct sys_cuda_gpu *_Atomic all[NET_PLUGIN_GPUS];
	struct sys_cuda_gpu *held, *none = NULL;
	tcpx_status status;

	if (gpu >= NET_PLUGIN_GPUS)
		return error_set(TCPX_ERR_LIMIT, 0, "GPU %u: a plugin can serve GPUs below %u only",
				 gpu, NET_PLUGIN_GPUS);
	if (atomic_load(&all[gpu]))
		return TCPX_OK;
	status = sys_cuda_get(gpu, &held);
	if (status == TCPX_OK && !atomic_compare_exchange_strong(&all[gpu], &none, held))
		sys_cuda_put(held);
	return status;
}

/* Chooses the GPU whose memory is sent and received as messages, and how its messages are
 * unpacked. */
static tcpx_status plugin_pick_gpu(struct engine_plugin *plugin, const tcpx_session_opts *opts)
{
	uint32_t gpu = opts->message_gpu ? opts->message_gpu - 1
					 : (uint32_t)config_u64(CONFIG_LOCAL_DEVICE);
	tcpx_status status = comms_gpu_mode(opts->unpack, plugin);

	if (status == TCPX_OK)
		status = gpu_context_keep(gpu);
	if (status != TCPX_OK)
		return status;
	plugin->gpu = (int)gpu;
	return TCPX_OK;
}

/* Keeps the contexts of the GPUs through which the NICs receive (landing). These may be other GPUs
 * than the session's own, if a NIC belongs to another GPU or if messages arrive in host memory
 * (host-recv). */
static tcpx_status landing_contexts_keep(const struct engine_plugin *plugin)
{
	tcpx_status status = TCPX_OK;

	for (unsigned i = 0; status == TCPX_OK && i < plugin->nnics; i++)
		if (plugin->nics[i].landing >= 0)
			status = gpu_context_keep((uint32_t)plugin->nics[i].landing);
	return status;
}

/* What comms_session_open() and its helpers share. */
struct opening {
	const tcpx_session_opts *opts;
	const char *nics;
	struct engine_plugin *plugin;
	struct comms_place *place; /* NULL until it is needed */
	bool checked;		   /* the environment was checked before the plugin started */
};

static tcpx_status opening_find_place(struct opening *o)
{
	return o->place ? TCPX_OK : comms_place_get(&o->place);
}

/* Checks the environment before a TCPX plugin starts, because the plugin reads its variables at its
 * start, and a wrong value can end or hang the process. Does nothing for other plugins. */
static tcpx_status opening_before_start(void *arg, const char *name)
{
	struct opening *o = arg;
	tcpx_status status;

	if (!comms_env_reads(name))
		return TCPX_OK;
	status = opening_find_place(o);
	if (status == TCPX_OK)
		status = comms_env_before(o->place, o->nics, o->plugin->message_bytes);
	o->checked = status == TCPX_OK;
	return status;
}

/* Decides which kinds of memory the plugin carries and which NICs are used. Looks only at the first
 * device, because all devices of a plugin are of one kind and differ only in their location. */
static tcpx_status opening_pick_device(struct opening *o)
{
	struct engine_plugin *plugin = o->plugin;
	const struct net_plugin_device *device = net_plugin_device(plugin->plugin, 0);
	bool unpack = device->device_type == NCCLNET_DEVICE_UNPACK;
	tcpx_status status = TCPX_OK;

	if (device->message_max < plugin->message_bytes)
		plugin->message_bytes = (uint32_t)device->message_max;
	plugin->chunk = unpack ? comms_env_chunk() : 0;
	if (plugin->chunk && plugin->chunk < plugin->message_bytes)
		/* if a message has several chunks, the plugin leaks pages */
		plugin->message_bytes = plugin->chunk;
	/* A device that leaves fragments in GPU memory carries host memory only on request
	 * (decision 26 in docs/design/decisions.md). */
	plugin->host = device->ptr_support & NCCLNET_PTR_HOST &&
		       (!unpack || o->opts->flags & TCPX_SESSION_PLUGIN_HOST ||
			config_bool(CONFIG_PLUGIN_HOST));
	if (!plugin->host && unpack && device->ptr_support & NCCLNET_PTR_CUDA)
		status = plugin_pick_gpu(plugin, o->opts);
	if (plugin->host_recv && !(device->ptr_support & NCCLNET_PTR_HOST))
		return error_set(TCPX_ERR_UNSUPPORTED, 0,
				 "host-recv: the plugin receives into GPU memory only");
	if (status == TCPX_OK && unpack)
		status = opening_find_place(o);
	if (status == TCPX_OK)
		status = comms_nics_pick(plugin, o->nics, o->place);
	if (status == TCPX_OK)
		status = landing_contexts_keep(plugin);
	if (status == TCPX_OK && unpack && !o->checked)
		status = comms_env_check(o->place, plugin);
	return status;
}

tcpx_status comms_session_open(struct engine_session *session, const tcpx_session_opts *opts)
{
	const char *path = opts->plugin ? opts->plugin : config_text(CONFIG_PLUGIN);
	struct opening opening = {.opts = opts,
				  .nics = opts->nic ? opts->nic : config_text(CONFIG_NIC)};
	struct net_plugin_opts load = {.path = strcmp(path, PLUGIN_DEFAULT) ? path : NULL,
				       .before_start = opening_before_start,
				       .arg = &opening};
	uint32_t channels = opts->plugin_channels;
	struct engine_plugin *plugin;
	tcpx_status status;

	if (!*path)
		return TCPX_OK;
	if (channels > CHANNELS_ASKED)
		return error_set(TCPX_ERR_INVALID, 0,
				 "option plugin_channels = %u is outside 1..%u", channels,
				 CHANNELS_ASKED);
	opening.plugin = plugin = calloc(1, sizeof(*plugin));
	if (!plugin)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "plugin of the session");
	plugin->gpu = -1;
	if (!channels)
		channels = (uint32_t)config_u64(CONFIG_PLUGIN_CHANNELS);
	plugin->channels = channels < CHANNELS_MOST ? channels : CHANNELS_MOST;
	plugin->message_bytes = (uint32_t)config_u64(CONFIG_MESSAGE_BYTES);
	plugin->message_above = config_u64(CONFIG_MESSAGE_ABOVE);
	plugin->sends = (uint32_t)config_u64(CONFIG_MAX_SEND_INFLIGHT);
	plugin->receives = (uint32_t)config_u64(CONFIG_MAX_RECV_INFLIGHT);
	plugin->setup_ns = (int64_t)config_u64(CONFIG_PLUGIN_TIMEOUT_MS) * CLOCK_MS_NS;
	plugin->message_ns = (int64_t)config_u64(CONFIG_MESSAGE_TIMEOUT_MS) * CLOCK_MS_NS;
	plugin->rest_ns = (int64_t)config_u64(CONFIG_PLUGIN_REST_MS) * CLOCK_MS_NS;
	load.timeout_ns = plugin->setup_ns;
	status = net_plugin_get(&load, &plugin->plugin);
	if (status == TCPX_OK) {
		session->plugin = plugin;
		status = opening_pick_device(&opening);
	} else {
		free(plugin);
	}
	comms_place_free(opening.place);
	return status;
}

void comms_session_close(struct engine_session *session)
{
	if (!session->plugin)
		return;
	net_plugin_put(session->plugin->plugin);
	free(session->plugin);
	session->plugin = NULL;
}

void comms_hello(const struct engine_session *session, struct wire_messages *out_messages)
{
	const struct engine_plugin *plugin = session->plugin;

	*out_messages = (struct wire_messages){0};
	if (!plugin)
		return;
	out_messages->channels = plugin->channels;
	out_messages->bytes = plugin->message_bytes;
	if (session->tuning.chunk_bytes && session->tuning.chunk_bytes < plugin->message_bytes)
		out_messages->bytes = session->tuning.chunk_bytes;
	out_messages->window = smaller_u32(plugin->sends, plugin->receives);
	out_messages->plugin_chunk = plugin->chunk;
}

void comms_grant(const struct engine_session *session, const struct wire_messages *wish,
		 struct wire_messages *out_messages)
{
	struct wire_messages ours;

	comms_hello(session, &ours);
	*out_messages = (struct wire_messages){0};
	if (!ours.channels || !wish->channels || ours.plugin_chunk != wish->plugin_chunk)
		return;
	out_messages->channels = smaller_u32(ours.channels, wish->channels);
	out_messages->bytes = smaller_u32(ours.bytes, wish->bytes);
	out_messages->window = smaller_u32(ours.window, wish->window);
	out_messages->plugin_chunk = ours.plugin_chunk;
}

tcpx_status comms_peer_open(struct engine_peer *peer, const struct wire_messages *granted,
			    bool begin_empty)
{
	struct wire_messages ours;
	struct engine_peer_comms *table;

	comms_hello(peer->link.session, &ours);
	if (!granted->channels || peer->comms)
		return TCPX_OK;
	if (granted->channels > ours.channels || granted->bytes > ours.bytes || !granted->bytes ||
	    granted->window > ours.window || !granted->window ||
	    granted->plugin_chunk != ours.plugin_chunk)
		return error_set(TCPX_ERR_PROTOCOL, 0,
				 "the peer granted %u plugin channels of %u messages of %u bytes",
				 granted->channels, granted->window, granted->bytes);
	table = calloc(1, sizeof(*table));
	if (table)
		table->slots = calloc(granted->channels, sizeof(*table->slots));
	if (!table || !table->slots) {
		free(table);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "table of plugin channels");
	}
	table->first = peer->nbulk - granted->channels + 1;
	table->count = granted->channels;
	table->message_bytes = granted->bytes;
	table->window = granted->window;
	table->begin_empty = begin_empty;
	list_init(&table->closing);
	list_init(&table->strand.node);
	table->peer = peer;
	peer->comms = table;
	return TCPX_OK;
}

void comms_peer_free(struct engine_peer *peer)
{
	if (!peer->comms)
		return;
	free(peer->comms->slots);
	free(peer->comms);
	peer->comms = NULL;
}

struct comms_slot *comms_slot(const struct engine_peer *peer, uint32_t channel)
{
	struct engine_peer_comms *table = peer->comms;

	return table && channel >= table->first && channel - table->first < table->count
		       ? &table->slots[channel - table->first]
		       : NULL;
}

uint32_t comms_given_up(const struct engine_peer *peer)
{
	uint32_t count = 0;

	for (uint32_t i = 0; peer->comms && i < peer->comms->count; i++)
		count += peer->comms->slots[i].given_up;
	return count;
}

/* Whether the plugin may connect to any handle that the peer sent, even to one that cannot be
 * checked: the link is authenticated with the key of a key file, or all peers are trusted
 * (TCPX_PLUGIN_TRUST_PEERS). */
static bool peer_is_trusted(const struct engine_peer *peer)
{
	return peer->dialling.hello.auth == WIRE_AUTH_KEY || config_bool(CONFIG_PLUGIN_TRUST_PEERS);
}

tcpx_status comms_take_handle(struct engine_comms *comms, const uint8_t *handle)
{
	const struct engine_peer *peer = comms->peer;

	memcpy(comms->setup.handle, handle, sizeof(comms->setup.handle));
	comms->setup.handle_came =
		net_handle_check(peer->link.session->plugin->plugin, peer_is_trusted(peer),
				 here_now_is(&peer->address.remote),
				 comms->setup.handle) == TCPX_OK;
	return comms->setup.handle_came ? TCPX_OK : error_last()->status;
}

bool comms_not_tried(const struct engine_peer *peer, const char **out_why)
{
	*out_why =
		"handles of a plugin that is not TCPX cannot be checked: let peers prove a key "
		"file (TCPX_KEY_FILE), or set TCPX_PLUGIN_TRUST_PEERS=1 where each may be trusted";
	if (!net_handle_is_known(peer->link.session->plugin->plugin) && !peer_is_trusted(peer))
		return true;
	*out_why = "the peer is on this host, and reached by the local transport";
	if (peer->shared_memory.have_offer)
		return true;
	/* A NIC steers only packets that come from another host into GPU memory. */
	*out_why = "the peer is on this host, where a NIC steers nothing; let the local transport "
		   "be used, or try TCPX_GPUDIRECT_SAME_HOST=1";
	return peer->link.session->plugin->gpu >= 0 && !config_bool(CONFIG_GPUDIRECT_SAME_HOST) &&
	       here_now_is(&peer->address.remote);
}

bool comms_carries(struct engine_request *request)
{
	const struct core_segs *segs = &request->segs;
	const struct engine_plugin *plugin = request->peer->link.session->plugin;

	if (!request->peer->comms || segs->total <= plugin->message_above ||
	    segs->total / segs->nseg < plugin->message_above || !request->local.messages ||
	    !core_link_messages_up(&request->peer->link.core))
		return false;
	switch (request->xfer.op) {
	case TCPX_OP_WRITE:
	case TCPX_OP_READ:
		return request->remote.messages;
	case TCPX_OP_SEND:
	case TCPX_OP_RECV:
		return true; /* the receiver decides, by its CTS (clear-to-send) frame */
	case TCPX_OP_NOTIFY:
		break;
	}
	return false;
}

tcpx_status comms_serve(struct engine_peer *peer, struct core_resp *resp, const uint64_t *keys,
			bool asked)
{
	const struct core_segs *segs = &resp->segs;

	(void)keys;
	if (!asked)
		return TCPX_OK;
	if (!peer->comms)
		return TCPX_ERR_REMOTE;
	for (uint32_t i = 0; i < segs->nlocal; i++)
		if (!comms_takes(peer->link.session, segs->local[i]))
			return TCPX_ERR_REMOTE;
	resp->job.path = CORE_PATH_MESSAGE;
	resp->job.fills = false;
	return TCPX_OK;
}

void comms_tell(struct engine_comms *comms, enum frame_comm what, const void *payload,
		uint32_t bytes)
{
	struct frame frame = {.type = FRAME_COMM,
			      .key = what,
			      .linear = comms->channel,
			      .epoch = comms->epoch,
			      .payload_bytes = bytes};

	link_tell(&comms->peer->link, &frame, payload);
}

static void comms_setup_ended(void *arg)
{
	struct engine_peer *peer = arg;

	link_wake(&peer->link);
}

struct net_setup_opts comms_opts(const struct engine_comms *comms, int64_t deadline_ns)
{
	const struct engine_plugin *plugin = comms->peer->link.session->plugin;
	struct net_setup_opts opts = {
		.plugin = plugin->plugin,
		.dev = comms_nic(comms)->dev,
		.gpu = plugin->gpu,
		.gpu_ops = &comms_gpu_ops,
		.deadline_ns = deadline_ns,
		.channel = comms->channel,
		.window = comms->peer->comms->window,
		.ended = comms_setup_ended,
		.ended_arg = comms->peer,
	};

	snprintf(opts.peer, sizeof(opts.peer), "%.63s", comms->peer->who.name);
	return opts;
}
