/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of struct engine_session. The header named in a comment declares the functions of the
 * part. */
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

/* The numeric options: session/session_opts.h. A link uses the smaller of its two ends' values of
 * channels and chunk_bytes. The value 0 leaves the choice to the other end. */
struct session_tuning {
	uint32_t channels, chunk_bytes;
	uint32_t inline_bytes; /* the posting thread sends posts of up to so many bytes itself */
	int64_t silent_ns, stopped_ns;
	/* how long refused requests wait for a goodbye of the peer: request/goodbye_wait.h */
	_Atomic int64_t goodbye_ns;
	uint64_t notify_budget;
};

/* The session's identity, which peers verify: peer/peer_identity.h. */
struct session_identity {
	struct ctl_identity own; /* constant */
	_Atomic uint64_t impostors;
	struct log_limit impostor_log; /* control thread: limits the log of impostors */
};

/* The addresses that the session advertises: peer/session_advertised.h. */
struct session_advertised {
	char *option; /* text of the option; NULL: the option is not set */
	/* The addresses in `option`, set when the session begins to listen. Port 0 stands for the
	 * port on which the session listens. */
	struct wire_address addrs[WIRE_ADDR_MAX];
	uint32_t count;
};

/* Where peers reach the session: session/session_listen.h. */
struct session_listen {
	/* under session.lock: the session listens, or a call is about to make it listen */
	bool begun;
	uint16_t port;
	struct ctl_listener *at[ENGINE_RAILS_MAX]; /* listeners, by rail */
	uint32_t count;
	struct transport_listener *local; /* listener for peers on this host; NULL: not open */
	char local_name[LOCAL_NAME_MAX];
};

/* Inbound peers of the session: peer/inbound.h. Only the control thread uses the struct. */
struct session_inbound {
	uint32_t most, live;   /* the limit (TCPX_MAX_PEERS); the number of live inbound peers */
	uint32_t nhalf, ndead; /* lengths of `half` and `dead` */
	/* peers whose control connection is authenticated and whose channels are still missing */
	struct list_node half;
	struct list_node dead; /* dead peers whose handles the application has, oldest first */
};

/* The deadlines of the session's requests: session/session_deadline.h. */
struct session_deadline {
	struct sys_timer timer; /* control thread: fires at the next deadline */
	/* wakes the control thread when a request with a deadline was posted */
	struct sys_post post;
	_Atomic int posted;
};

/* Notifications, completions and events that wait for the application: request/ready.h. The lock is
 * a leaf lock. It also guards session_staging, session_counters.gone, link_quota and
 * engine_peer.unread. */
struct session_queue {
	pthread_mutex_t lock;
	/* list of core_notify_in: notifications that the application has not read */
	struct list_node notes;
	/* list of core_notify_in: notifications read by the application and not released */
	struct list_node taken;
	struct list_node completions; /* ended requests whose completion is wanted */
	struct list_node events, accepts;
	uint32_t nevents;
	int eventfd;
	/* the application has asked for `eventfd` */
	bool fd_used;
	bool signalled; /* `eventfd` is readable */
	/* fields with "word" in their name are futexes */
	_Atomic uint32_t note_word, note_waiters, accept_word;
	_Atomic uint32_t ready_word, ready_waiters;
	struct engine_lead *note_lead, *ready_lead;
	struct engine_lead *leads; /* list of unused entries */
};

#endif
