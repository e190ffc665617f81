/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment variables of a TCPX plugin on this machine. Lists the settings that a tool may
 * make for its own process before the plugin is loaded. Lists the problems of the environment; if
 * one is fatal, a session is refused. No function of this file changes the environment.
 *
 * Variables that name interfaces, and RxDM, are checked only if a NIC in use is an interface of
 * this machine. The NICs of an emulator are not interfaces. The functions may ask RxDM, and may be
 * called by any thread.
 */
#ifndef ENGINE_CHANNEL_COMMS_ENV_H
#define ENGINE_CHANNEL_COMMS_ENV_H

#include "engine/channel/comms.h"
#include "engine/channel/comms_place.h"
#include "plugin/plugin.h"

/* In the functions below, message_bytes is the requested size of messages, or 0 for
 * TCPX_MESSAGE_BYTES. If NCCL_DYNAMIC_CHUNK_SIZE is smaller, but not below the minimum of
 * TCPX_MESSAGE_BYTES, that size is used instead. A function that takes the NICs of this machine's
 * GPUs takes none if TCPX_PAIRING is off. */

/* Lists at most `max` settings that fit the NICs of this machine's GPUs, including settings that
 * the user has made already. */
tcpx_status comms_env_settings(size_t message_bytes, struct gpudirect_setting *out_settings,
			       unsigned max, unsigned *out_count);
/* Lists at most `max` problems of the environment, fatal ones first, for the NICs in the list
 * `nics`. If `nics` is "" or "all", checks the NICs of this machine's GPUs. */
tcpx_status comms_env_problems(const char *nics, size_t message_bytes,
			       struct gpudirect_problem *out_problems, unsigned max,
			       unsigned *out_count);
/* Whether a plugin with this name reads the variables of a TCPX plugin. */
bool comms_env_reads(const char *plugin_name);
/* Checks the environment before the plugin reads it, for the NICs in the list `nics`. If `nics` is
 * "" or "all", checks the NICs of this machine's GPUs. Logs all problems. Returns ERR_UNSUPPORTED
 * if there is a fatal problem; the last error says what the first one is and how to repair it. */
tcpx_status comms_env_before(const struct comms_place *place, const char *nics,
			     uint32_t message_bytes);
/* Checks the environment after the plugin has started, for the NICs that the session uses. Returns
 * the same statuses as comms_env_before(). */
tcpx_status comms_env_check(const struct comms_place *place, const struct engine_plugin *plugin);
/* Returns NCCL_DYNAMIC_CHUNK_SIZE as the plugin reads it, or 0 if it is not set. */
uint32_t comms_env_chunk(void);

#endif
