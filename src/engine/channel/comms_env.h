/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment variables of a TCPX plugin on this machine: which ones a tool may set for its
 * own process before the plugin is loaded, and with which ones a session is refused. No function
 * here changes the environment.
 *
 * Variables that name interfaces, and RxDM, are checked only if a NIC in use is an interface of
 * this machine. The NICs of an emulator are not. The functions may ask RxDM and run on any thread.
 */
#ifndef ENGINE_CHANNEL_COMMS_ENV_H
#define ENGINE_CHANNEL_COMMS_ENV_H

#include "engine/channel/comms.h"
#include "engine/channel/comms_place.h"
#include "plugin/plugin.h"

/* In the functions below, message_bytes is the requested size of messages; 0: TCPX_MESSAGE_BYTES.
 * If NCCL_DYNAMIC_CHUNK_SIZE is smaller, it is the size of messages. */

/* Lists the settings that fit the NICs of this machine's GPUs, at most max, including those that
 * the user made. */
tcpx_status comms_env_settings(size_t message_bytes, struct gpudirect_setting *out_settings,
			       unsigned max, unsigned *out_count);
/* Lists the problems of the environment, fatal ones first, at most max, for the NICs in the list
 * `nics`; "" or "all": the NICs of this machine's GPUs. */
tcpx_status comms_env_problems(const char *nics, size_t message_bytes,
			       struct gpudirect_problem *out_problems, unsigned max,
			       unsigned *out_count);
/* Whether a plugin of that name reads these variables. */
bool comms_env_reads(const char *plugin_name);
/* Checks the environment before the plugin reads it, for the NICs in the list `nics`; "" or
 * "all": the NICs of this machine's GPUs. ERR_UNSUPPORTED: there is a fatal problem. The last
 * error has the first one and how to repair it; the log has all problems. */
tcpx_status comms_env_before(const struct comms_place *place, const char *nics,
			     uint32_t message_bytes);
/* Checks the environment after the plugin started, for the NICs that the session uses. Result as
 * of comms_env_before(). */
tcpx_status comms_env_check(const struct comms_place *place, const struct engine_plugin *plugin);
/* NCCL_DYNAMIC_CHUNK_SIZE as the plugin reads it; 0: not set. */
uint32_t comms_env_chunk(void);

#endif
