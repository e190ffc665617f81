/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin of a session: its NICs and limits, and which memory it carries. */
#ifndef ENGINE_LINK_PLUGIN_STATE_H
#define ENGINE_LINK_PLUGIN_STATE_H

#include "base/error.h"
#include "engine/link/engine.h"
#include "mem/unpack.h"
#include "plugin/plugin.h"

#define COMMS_NICS_MAX 16

struct engine_nic {
	unsigned dev; /* the plugin's number */
	int landing;  /* the GPU whose pages receives come into; -1: host memory */
};

/* The plugin of a session; constant after open, except for uncovered. */
struct engine_plugin {
	struct net_plugin *plugin;
	struct engine_nic nics[COMMS_NICS_MAX]; /* the channels take them in turn */
	unsigned nnics;
	uint32_t channels, message_bytes, sends, receives;
	uint64_t message_above; /* transfers up to this size go over tcp, which is cheaper */
	uint32_t chunk;		/* the pieces that the plugin cuts messages into; 0: it does not */
	int64_t setup_ns, message_ns, rest_ns;
	bool host; /* host memory goes as messages */
	int gpu;   /* otherwise memory of this GPU; -1 */
	enum mem_unpack_mode unpack;
	bool chosen;	/* the caller or the environment chose unpack: no other mode replaces it */
	bool host_recv; /* messages for the GPU are received into host memory and copied */
	_Atomic uint32_t uncovered; /* regions whose pages the driver does not export */
};

/* Whether memory of the region may go as messages. Any thread. */
static inline bool comms_takes(const struct engine_session *session,
			       const struct mem_region *region)
{
	const struct engine_plugin *plugin = session->plugin;

	if (!plugin)
		return false;
	/* A plugin may crash when memory vanishes that it reads. */
	if (plugin->host && !region->kind->staged)
		return !mem_region_vanishes(region);
	return region->kind->kind == TCPX_MEM_CUDA && plugin->gpu == (int)region->device &&
	       atomic_load_explicit(&region->cover, memory_order_relaxed) == MEM_COVER_GIVEN;
}

#endif
