/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of a TCPX plugin on this machine: what a tool may set for its own process before
 * the plugin is loaded, and what a session refuses. Nothing here changes the environment. Variables
 * that name interfaces, and RxDM, are checked only if a NIC in use is an interface of this machine:
 * the NICs of an emulator are not. May ask RxDM. Any thread.
 */
#ifndef ENGINE_CHANNEL_COMMS_ENV_H
#define ENGINE_CHANNEL_COMMS_ENV_H

#include "engine/channel/comms.h"
#include "engine/channel/comms_place.h"
#include "plugin/plugin.h"

/* message_bytes: the requested size; 0: TCPX_MESSAGE_BYTES. A smaller NCCL_DYNAMIC_CHUNK_SIZE makes
 * messages smaller. */

/* The settings for the NICs of this machine's GPUs, those that the user made included; at most
 * max. */
tcpx_status comms_env_settings(size_t message_bytes, struct gpudirect_setting *out_settings,
			       unsigned max, unsigned *out_count);
/* The problems, fatal ones first, for NICs by their names; "" or "all": as above. */
tcpx_status comms_env_problems(const char *nics, size_t message_bytes,
			       struct gpudirect_problem *out_problems, unsigned max,
			       unsigned *out_count);
/* Whether a plugin of that name reads this environment. */
bool comms_env_reads(const char *plugin_name);
/* Checks before the plugin reads it, for NICs by their names as above. ERR_UNSUPPORTED: a fatal
 * problem; the error has the first one and the line that repairs it, the log all of them. */
tcpx_status comms_env_before(const struct comms_place *place, const char *nics,
			     uint32_t message_bytes);
/* The same check after the plugin started, for the session's own NICs. */
tcpx_status comms_env_check(const struct comms_place *place, const struct engine_plugin *plugin);
/* NCCL_DYNAMIC_CHUNK_SIZE as the plugin reads it; 0: not set. */
uint32_t comms_env_chunk(void);

#endif
