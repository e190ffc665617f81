/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of a listener: its unauthenticated connections, and what tests use beyond conn.h. */
#ifndef CTL_LISTENER_H
#define CTL_LISTENER_H

#include "base/error.h"
#include "ctl/conn.h"
#include "ctl/handshake.h"

enum ctl_preauth_state { CTL_READ_DIAL, CTL_SEND_ANSWER, CTL_READ_PROOF, CTL_LINGER };

#define CTL_DIAL_SOURCES 64

/* The recent connections of one source, for the limit of its rate. */
struct ctl_dials {
	uint64_t source; /* sys_addr_source() of the remote address */
	int64_t paid_ns; /* the time up to which the connections of the source are charged */
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
	/* an open descriptor, which is closed to have a free one when none is left; -1: none */
	int reserve;
	/* busy: depth of callbacks in which the listener is not freed; closed: ctl_listener_close
	 * was called */
	int busy, closed;
	int64_t preauth_ns; /* time from accept to the proof */
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
	size_t lingered_bytes; /* bytes that a refused dialler sent since the refusal */
	bool link_gone;	       /* its dial names a link that the session does not have */
	struct ctl_handshake hs;
};

/* Takes over an accepted connection and begins its handshake, or closes it if memory is missing. */
void ctl_preauth_admit(struct ctl_listener *listener, int fd, const struct sockaddr_storage *addr);
/* Counts, logs and closes a connection that failed before authentication. A wrong proof (ERR_AUTH)
 * ends in an orderly close, any other status in a reset, so that a dialler with the right key can
 * distinguish "never" from "try again". A dial to a channel of a link that is gone is not counted
 * as a failure of authentication, and not logged as a warning. */
void ctl_preauth_reject(struct ctl_preauth *preauth, tcpx_status status, const char *why);
/* Closes a connection, by a reset or in order, without counting or logging it. */
void ctl_preauth_drop(struct ctl_preauth *preauth, int reset);

/* Called before an accept. 1: there may be one more connection; if there were too many, one was
 * closed. 0: none can be closed at present, because all have a recent proven dial, and accept
 * pauses. */
int ctl_listener_room(struct ctl_listener *listener);
/* Admits an accepted connection. Closes the oldest of its source if that has too many, or the
 * connection itself if its source connects too often. */
void ctl_listener_take(struct ctl_listener *listener, int fd, const struct sockaddr_storage *addr);

/* Sets the time from accept to the proof, instead of 2 s, for connections that are accepted after
 * this call. */
void ctl_listener_set_preauth(struct ctl_listener *listener, int64_t deadline_ns);

/* Number of connections that are not authenticated yet. */
unsigned ctl_listener_preauths(const struct ctl_listener *listener);

#endif
