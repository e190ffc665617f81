/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment variables of a TCPX plugin on this machine: what a tool may set for its own
 * process before the plugin is loaded, and what a session refuses. Nothing here changes the
 * environment. Variables that name interfaces, and RxDM, are checked only if a NIC in use is an
 * interface of this machine: the NICs of an emulator are not. Functions here may ask RxDM and run
 * on any thread.
 */
#ifndef ENGINE_CHANNEL_COMMS_ENV_H
#define ENGINE_CHANNEL_COMMS_ENV_H

#include "engine/channel/comms.h"
#include "engine/channel/comms_place.h"
#include "plugin/plugin.h"

/* In the functions below, message_bytes is the requested size of messages; 0: TCPX_MESSAGE_BYTES. A
 * smaller NCCL_DYNAMIC_CHUNK_SIZE makes messages smaller. */

/* Lists the settings for the NICs of this machine's GPUs, including those that the user made; at
 * most max. */
tcpx_status comms_env_settings(size_t message_bytes, struct gpudirect_setting *out_settings,
			       unsigned max, unsigned *out_count);
/* Lists the problems, fatal ones first, for the NICs that nics names; "" or "all": the NICs of this
 * machine's GPUs. */
tcpx_status comms_env_problems(const char *nics, size_t message_bytes,
			       struct gpudirect_problem *out_problems, unsigned max,
			       unsigned *out_count);
/* Whether a plugin of that name reads these variables. */
bool comms_env_reads(const char *plugin_name);
/* Checks the environment before the plugin reads it, for the NICs that nics names, as above.
 * ERR_UNSUPPORTED: there is a fatal problem; the last error has the first one and the line that
 * repairs it, the log has all problems. */
tcpx_status comms_env_before(const struct comms_place *place, const char *nics,
			     uint32_t message_bytes);
/* The same check after the plugin started, for the NICs that the session uses. */
tcpx_status comms_env_check(const struct comms_place *place, const struct engine_plugin *plugin);
/* NCCL_DYNAMIC_CHUNK_SIZE as the plugin reads it; 0: not set. */
uint32_t comms_env_chunk(void);

#endif
