/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of a listener: its unauthenticated connections, and what tests use beyond conn.h. */
#ifndef CTL_LISTENER_H
#define CTL_LISTENER_H

#include "base/error.h"
#include "ctl/conn.h"
#include "ctl/handshake.h"

enum ctl_preauth_state { CTL_READ_DIAL, CTL_SEND_ANSWER, CTL_READ_PROOF, CTL_LINGER };

#define CTL_DIAL_SOURCES 64

/* The recent connections of one source, for the rate limit. */
struct ctl_dials {
	uint64_t source; /* sys_addr_source() of the remote address */
	int64_t paid_ns; /* time up to which the source's connections are charged */
};

struct ctl_listener {
	struct sys_loop *loop;
	const struct ctl_accept_ops *ops;
	void *arg;
	struct ctl_counters *counters;
	struct sys_watch watch;
	struct sys_timer retry;	   /* ends a pause of accept */
	struct list_node preauths; /* oldest first */
	unsigned npreauths;	   /* number of preauths */
	/* spare descriptor, closed to have a free one when none is left; -1 if there is none */
	int reserve;
	/* `busy` is the number of callbacks in progress, in which the listener is not freed;
	 * `closed` is 1 after ctl_listener_close() */
	int busy, closed;
	int64_t preauth_ns; /* time limit from accept to the proof */
	struct log_limit auth_log, reject_log, resource_log;
	struct ctl_dials dials[CTL_DIAL_SOURCES];
};

/* A connection that is not authenticated yet. */
struct ctl_preauth {
	struct ctl_listener *listener;
	struct list_node node;
	struct sys_watch watch;
	struct sys_timer timer;
	struct sockaddr_storage addr;
	uint64_t source;  /* sys_addr_source() of addr */
	int64_t since_ns; /* when it was accepted */
	enum ctl_preauth_state state;
	size_t lingered_bytes;	 /* bytes that a refused dialler sent since the refusal */
	bool dial_of_ended_link; /* the session has no key for its dial of a data channel */
	struct ctl_handshake hs;
};

/* Takes over an accepted connection and begins its handshake. Closes the connection if resources
 * are missing. */
void ctl_preauth_admit(struct ctl_listener *listener, int fd, const struct sockaddr_storage *addr);
/* Counts, logs and closes a connection that failed before authentication. The close is orderly for
 * ERR_AUTH (wrong proof, or no key for the dial), and a reset for any other status. So a dialler
 * can distinguish "never" from "try again". With `dial_of_ended_link`, the failure is not counted
 * as one of authentication, and not logged as a warning. */
void ctl_preauth_reject(struct ctl_preauth *preauth, tcpx_status status, const char *why);
/* Closes a connection without counting or logging it: by a reset if `reset` is set, else
 * orderly. */
void ctl_preauth_drop(struct ctl_preauth *preauth, int reset);

/* Called before an accept. Returns 1 if there may be one more connection; an older one may have
 * been closed for it. Returns 0 and pauses accept if none can be closed yet: all have a proven
 * dial, and the oldest is not refused and was accepted less than 0.5 s ago. */
int ctl_listener_room(struct ctl_listener *listener);
/* Admits an accepted connection. If its source has too many connections without a proven dial,
 * closes the oldest of them. If its source connects too often, closes the new connection
 * instead. */
void ctl_listener_take(struct ctl_listener *listener, int fd, const struct sockaddr_storage *addr);

/* Sets the time limit from accept to the proof (2 s by default) for connections that are accepted
 * after this call. */
void ctl_listener_set_preauth(struct ctl_listener *listener, int64_t deadline_ns);

/* Number of connections that are not authenticated yet. */
unsigned ctl_listener_preauths(const struct ctl_listener *listener);

#endif
