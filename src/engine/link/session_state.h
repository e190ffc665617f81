/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a session. The header that a comment names declares the functions of that part. */
#ifndef ENGINE_LINK_SESSION_STATE_H
#define ENGINE_LINK_SESSION_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/list.h"
#include "ctl/conn.h"
#include "engine/link/rail_state.h"
#include "net/local/local.h"
#include "sys/loop.h"
#include "wire/hello.h"

struct ctl_listener;
struct engine_lead;

/* The options that are numbers: session/session_opts.h. For channels and chunk_bytes the two ends
 * of a link use the smaller value; 0: the other end decides. */
struct session_tuning {
	uint32_t channels, chunk_bytes;
	uint32_t inline_bytes; /* a post sends so much itself */
	int64_t silent_ns, stopped_ns;
	_Atomic int64_t goodbye_ns; /* goodbye_wait.h */
	uint64_t notify_budget;
};

/* Its identity, which peers verify: peer/peer_identity.h. */
struct session_identity {
	struct ctl_identity own; /* constant */
	_Atomic uint64_t impostors;
	struct log_limit impostor_log; /* control thread */
};

/* The addresses that it advertises: peer/session_advertised.h. */
struct session_advertised {
	char *option; /* the option's text, or NULL */
	/* its addresses, set once the session listens; port 0: the session's port */
	struct wire_address addrs[WIRE_ADDR_MAX];
	uint32_t count;
};

/* Where peers reach it: session/session_listen.h. */
struct session_listen {
	bool begun; /* session.lock: the session listens, or a call is about to make it listen */
	uint16_t port;
	struct ctl_listener *at[ENGINE_RAILS_MAX]; /* by rail */
	uint32_t count;
	struct transport_listener *local; /* or NULL */
	char local_name[LOCAL_NAME_MAX];
};

/* The number of inbound peers: peer/inbound.h. Control thread. */
struct session_inbound {
	uint32_t most, live; /* most: TCPX_MAX_PEERS */
	uint32_t nhalf, ndead;
	struct list_node half; /* control link authenticated, channels still missing */
	struct list_node dead; /* oldest first; the application has their handles */
};

/* The deadlines of its requests: session/session_deadline.h. */
struct session_deadline {
	struct sys_timer timer; /* control thread: at the next deadline */
	struct sys_post post;	/* a request with a deadline was posted */
	_Atomic int posted;
};

/* What waits for the application: request/ready.h. The lock is a leaf. It also guards
 * session_staging, session_counters.gone, link_quota and engine_peer.unread. */
struct session_queue {
	pthread_mutex_t lock;
	struct list_node notes;	      /* core_notify_in with a header */
	struct list_node taken;	      /* the same, not released yet */
	struct list_node completions; /* of requests that ended */
	struct list_node events, accepts;
	uint32_t nevents;
	int eventfd;
	bool fd_used;					       /* the application has the eventfd */
	bool signalled;					       /* the eventfd is readable */
	_Atomic uint32_t note_word, note_waiters, accept_word; /* words: futexes */
	_Atomic uint32_t ready_word, ready_waiters;
	struct engine_lead *note_lead, *ready_lead;
	struct engine_lead *leads; /* unused ones */
};

#endif
