/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of a listener: its unauthenticated connections, and what tests use beyond conn.h. */
#ifndef CTL_LISTENER_H
#define CTL_LISTENER_H

#include "base/error.h"
#include "ctl/conn.h"
#include "ctl/handshake.h"

enum ctl_preauth_state { CTL_READ_DIAL, CTL_SEND_ANSWER, CTL_READ_PROOF, CTL_LINGER };

#define CTL_DIAL_SOURCES 64

struct ctl_dials {
	uint64_t source;
	int64_t paid_ns; /* the time up to which the connections of the source are charged */
};

struct ctl_listener {
	struct sys_loop *loop;
	const struct ctl_accept_ops *ops;
	void *arg;
	struct ctl_counters *counters;
	struct sys_watch watch;
	struct sys_timer retry;
	struct list_node preauths; /* oldest first */
	unsigned npreauths;
	int reserve; /* a descriptor to give up when no other is left */
	int busy, closed;
	int64_t preauth_ns;
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
	uint64_t source;
	int64_t since_ns;
	enum ctl_preauth_state state;
	size_t lingered_bytes;
	bool link_gone; /* its dial names a link that the session does not have */
	struct ctl_handshake hs;
};

/* Takes over the connection, or closes it if there is no memory. */
void ctl_preauth_admit(struct ctl_listener *listener, int fd, const struct sockaddr_storage *addr);
/* Counts, logs and closes. A channel of a link that is gone is no failure of authentication, and
 * is not warned of. A wrong proof (ERR_AUTH) ends in an orderly close, anything else in a
 * reset, so that a dialler with the right key can distinguish "never" from "try again". */
void ctl_preauth_reject(struct ctl_preauth *preauth, tcpx_status status, const char *why);
/* Closes silently. */
void ctl_preauth_drop(struct ctl_preauth *preauth, int reset);

/* Makes room before an accept. 0: impossible now, because all connections have a recent proven
 * dial. */
int ctl_listener_room(struct ctl_listener *listener);
/* Admits an accepted connection; closes the oldest of its source if that has too many. */
void ctl_listener_take(struct ctl_listener *listener, int fd, const struct sockaddr_storage *addr);

/* Sets the time from accept to the proof, instead of 2 s, for connections accepted from now on. */
void ctl_listener_set_preauth(struct ctl_listener *listener, int64_t deadline_ns);

/* Number of connections that are not authenticated yet. */
unsigned ctl_listener_preauths(const struct ctl_listener *listener);

#endif
