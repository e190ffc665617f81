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
	unsigned dev; /* the plugin's number for the NIC */
	/* GPU into whose memory the NIC receives messages; -1: host memory. With `host_recv`, a GPU
	 * whose flows the NIC does not steer, so that messages arrive in host memory. */
	int landing;
};

/* The plugin of a session. Constant after open, except for `uncovered`. */
struct engine_plugin {
	struct net_plugin *plugin;
	struct engine_nic nics[COMMS_NICS_MAX]; /* channels use the NICs in turn */
	unsigned nnics;
	uint32_t channels, message_bytes, sends, receives;
	/* transfers up to this many bytes use no plugin channel, because tcp is faster for them */
	uint64_t message_above;
	/* size of the pieces into which the plugin cuts messages; 0: it cuts none */
	uint32_t chunk;
	int64_t setup_ns, message_ns, rest_ns;
	bool host; /* host memory may be sent as messages */
	int gpu;   /* memory of this GPU may be sent as messages; -1: none */
	enum mem_unpack_mode unpack;
	/* the caller or the environment chose `unpack`, so no other mode may replace it */
	bool chosen;
	/* messages for the GPU are received into host memory and copied from there */
	bool host_recv;
	/* number of regions, so far, whose pages the driver did not export */
	_Atomic uint32_t uncovered;
};

/* Returns whether memory of the region may be sent as messages. May be called by any thread. */
static inline bool comms_takes(const struct engine_session *session,
			       const struct mem_region *region)
{
	const struct engine_plugin *plugin = session->plugin;

	if (!plugin)
		return false;
	/* a plugin may crash if memory vanishes while the plugin reads it */
	if (plugin->host && !region->kind->staged)
		return !mem_region_vanishes(region);
	return region->kind->kind == TCPX_MEM_CUDA && plugin->gpu == (int)region->device &&
	       atomic_load_explicit(&region->cover, memory_order_relaxed) == MEM_COVER_GIVEN;
}

#endif
