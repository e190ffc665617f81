/* SPDX-License-Identifier: Apache-2.0 */
/* A session: its options, its peers, and what it hands to the application. */
#ifndef ENGINE_LINK_ENGINE_SESSION_H
#define ENGINE_LINK_ENGINE_SESSION_H

#include "ctl/conn.h"
#include "engine/link/account.h"
#include "engine/link/deferred_state.h"
#include "engine/link/rail_state.h"
#include "engine/link/session_counters.h"
#include "engine/link/session_state.h"
#include "engine/runtime/handles.h"
#include "mem/region.h"

#include <tcpx/tcpx.h>

#define ENGINE_EAGER_BUDGET (1u << 20)
#define ENGINE_READ_WINDOW 64

struct engine_plugin;

struct engine_session {
	_Atomic uint32_t magic;
	uint32_t fork_generation;
	/* guards the list of peers, listen.begun, the handles of peers, and fields whose comments
	 * name it */
	pthread_mutex_t lock;
	uint64_t flags;
	char name[TCPX_NAME_MAX + 1];
	uint8_t uuid[WIRE_UUID_BYTES], incarnation[WIRE_UUID_BYTES], secret[WIRE_SECRET_BYTES];
	struct session_identity identity;
	struct session_inbound inbound;
	struct session_rails rails;
	struct session_tuning tuning;
	struct session_advertised advertised;
	char *filters; /* wrappers around channels, for tests (net_wrapper); or NULL */
	struct ctl_keys keys;
	struct engine_plugin *plugin; /* NULL: the session uses no plugin */
	struct session_account account;
	struct mem_regions *regions;
	struct handles peers, requests, imports;
	struct list_node peer_list; /* the session's peers; under lock */
	struct session_listen listen;
	_Atomic bool closing; /* the session is being closed; set by the control thread */
	/* entry in runtime.sessions (control thread), after the close in runtime.late */
	struct list_node node;
	struct session_deadline deadline;
	struct session_queue queue;
	struct session_staging staging;
	struct session_counters counters;
};

#endif
