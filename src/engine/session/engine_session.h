/* SPDX-License-Identifier: Apache-2.0 */
/* A session: its options, its peers, and what its callers take out of it. */
#ifndef ENGINE_SESSION_ENGINE_SESSION_H
#define ENGINE_SESSION_ENGINE_SESSION_H

#include "ctl/conn.h"
#include "engine/link/account.h"
#include "engine/runtime/handles.h"
#include "engine/peer/inbound.h"
#include "engine/peer/peer_identity.h"
#include "engine/peer/rail_state.h"
#include "engine/peer/session_told.h"
#include "mem/region.h"
#include "net/local/local.h"
#include "sys/loop.h"

#include <tcpx/tcpx.h>

#define ENGINE_EAGER_BUDGET (1u << 20)
#define ENGINE_READ_WINDOW 64

struct engine_session {
	_Atomic uint32_t magic;
	uint32_t fork_generation;
	pthread_mutex_t lock; /* peers list changes, listeners, handles */
	uint64_t flags;
	char name[TCPX_NAME_MAX + 1];
	uint8_t uuid[WIRE_UUID_BYTES], incarnation[WIRE_UUID_BYTES], secret[WIRE_SECRET_BYTES];
	struct session_identity identity;
	struct session_inbound inbound;
	struct sockaddr_storage rails[ENGINE_RAILS_MAX];
	uint32_t nrails;
	bool bound, any_source; /* the user named rails; by "auto": other sources will do, too */
	uint32_t rails_said;	/* control thread, by bit: that it leads nowhere */
	char *filters;		/* what tests put around channels, net_wrapper; or NULL */
	struct session_told told;
	struct ctl_keys keys;
	struct engine_plugin *plugin;	/* or NULL */
	uint32_t channels, chunk_bytes; /* wishes; 0: none */
	uint32_t inline_bytes;
	int64_t silent_ns, stopped_ns;
	_Atomic int64_t goodbye_ns; /* doubt.h */
	uint64_t notify_budget;
	struct session_account account;
	struct mem_regions *regions;
	struct handles peers, requests, imports;
	struct list_node peer_list; /* lock */
	struct ctl_listener *listeners[ENGINE_RAILS_MAX];
	uint32_t nlisteners;
	uint16_t port;
	struct transport_listener *local;
	char local_name[LOCAL_NAME_MAX];
	bool listening, closing;
	struct list_node node; /* runtime's; control thread */
	struct sys_timer deadline_timer;
	struct sys_post deadline_post;
	_Atomic int deadline_posted;

	pthread_mutex_t queue_lock; /* everything below */
	struct list_node notes;	    /* core_notify_in with a header */
	struct list_node taken;	    /* the same, not released yet */
	struct list_node events, accepts;
	struct list_node completions; /* ended requests that nobody polled yet; ready.h */
	uint32_t nevents;
	int eventfd;
	bool fd_used, signalled; /* the eventfd: somebody has it, it is readable */
	_Atomic uint32_t note_word, note_waiters, accept_word;
	_Atomic uint32_t ready_word, ready_waiters;
	struct engine_lead *note_lead, *ready_lead;
	struct engine_lead *leads; /* free ones */
	uint64_t stage_pool, stage_free, stage_ahead;
	uint32_t stage_hungry; /* peers that are */
	bool stage_returned;
	struct ctl_counters ctl_counters;
	struct tcpx_counters counters; /* of peers that are gone; queue_lock */
	_Atomic uint64_t posted, done_count, failed, notes_in, notes_out, peers_up, peers_lost;
	_Atomic uint64_t channels_lost, redials, protocol_errors, active, carrier_losses,
		peers_failed;
};

/* session.c, control thread: it has a local listener from now on; false: it cannot. */
bool session_local_open(struct engine_session *session);
/* session_opts.c */
tcpx_status session_options(struct engine_session *session, const tcpx_session_opts *opts);
/* link/engine_link.c, any thread: a deadline is near */
void session_timer_kick(struct engine_session *session);

#endif
