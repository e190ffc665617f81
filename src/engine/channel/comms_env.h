/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of a TCPX plugin, seen from this machine: what a tool may set for its own process
 * before the plugin is loaded, and what a session refuses. Nothing here changes the environment.
 * Variables that name interfaces are looked at only where a NIC that is used is an interface of
 * this machine, and so is RxDM: an emulator's NICs are its own. May ask RxDM. Any thread.
 */
#ifndef ENGINE_CHANNEL_COMMS_ENV_H
#define ENGINE_CHANNEL_COMMS_ENV_H

#include "engine/channel/comms.h"
#include "engine/channel/comms_place.h"
#include "plugin/plugin.h"

/* message_bytes here: the wish, 0: TCPX_MESSAGE_BYTES. A smaller NCCL_DYNAMIC_CHUNK_SIZE makes
 * messages as small. */

/* The recipe for the NICs of the machine's GPUs, what the user set included; at most max. */
tcpx_status comms_env_settings(size_t message_bytes, struct gpudirect_setting *out_settings,
			       unsigned max, unsigned *out_count);
/* What is wrong, fatal ones first, for NICs by their names; "" or "all": as above. */
tcpx_status comms_env_problems(const char *nics, size_t message_bytes,
			       struct gpudirect_problem *out_problems, unsigned max,
			       unsigned *out_count);
/* Does a plugin of that name read it? */
bool comms_env_reads(const char *plugin_name);
/* Before the plugin reads it, for NICs by their names, as above. ERR_UNSUPPORTED: a fatal problem;
 * the error names the first one and its line, the log all of them. */
tcpx_status comms_env_before(const struct comms_place *place, const char *nics,
			     uint32_t message_bytes);
/* The same behind it, for the session's own NICs. */
tcpx_status comms_env_check(const struct comms_place *place, const struct engine_plugin *plugin);
/* NCCL_DYNAMIC_CHUNK_SIZE as the plugin takes it; 0: none. */
uint32_t comms_env_chunk(void);

#endif
