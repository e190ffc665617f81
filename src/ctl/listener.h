/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a listener: its strangers, and what tests see beyond conn.h. */
#ifndef CTL_LISTENER_H
#define CTL_LISTENER_H

#include "base/error.h"
#include "ctl/conn.h"
#include "ctl/handshake.h"

enum ctl_stranger_state { CTL_READ_DIAL, CTL_SEND_ANSWER, CTL_READ_PROOF, CTL_LINGER };

#define CTL_DIAL_SOURCES 64

struct ctl_dials {
	uint64_t source;
	int64_t paid_ns; /* the connections that it has made are paid for until then */
};

struct ctl_listener {
	struct sys_loop *loop;
	const struct ctl_accept_ops *ops;
	void *arg;
	struct ctl_counters *counters;
	struct sys_watch watch;
	struct sys_timer retry;
	struct list_node strangers; /* oldest first */
	unsigned nstrangers;
	int reserve; /* a descriptor to give up when there are none */
	int busy, closed;
	int64_t preauth_ns;
	struct log_limit auth_log, reject_log, resource_log;
	struct ctl_dials dials[CTL_DIAL_SOURCES];
};

/* A connection that is not authenticated yet. */
struct ctl_stranger {
	struct ctl_listener *listener;
	struct list_node node;
	struct sys_watch watch;
	struct sys_timer timer;
	struct sockaddr_storage addr;
	uint64_t source;
	int64_t since_ns;
	enum ctl_stranger_state state;
	size_t lingered_bytes;
	struct ctl_handshake hs;
};

/* Takes the connection over, or ends it when there is no memory. */
void ctl_stranger_admit(struct ctl_listener *listener, int fd, const struct sockaddr_storage *addr);
/* Counts, logs and closes. A wrong proof (ERR_AUTH) ends like an orderly close, anything else like
 * a failure: a dialler with the right key can tell "never" from "try again". */
void ctl_stranger_reject(struct ctl_stranger *stranger, tcpx_status status, const char *why);
/* Closes without a word. */
void ctl_stranger_drop(struct ctl_stranger *stranger, int reset);

/* Makes room before an accept. 0: none to be had just now, everyone is proven and young. */
int ctl_listener_room(struct ctl_listener *listener);
/* Admits an accepted connection, at the cost of the oldest of its source when that has too many. */
void ctl_listener_take(struct ctl_listener *listener, int fd, const struct sockaddr_storage *addr);

/* Time from accept to the proof, instead of 2 s; for connections accepted from now on. */
void ctl_listener_set_preauth(struct ctl_listener *listener, int64_t deadline_ns);

/* Connections that are not authenticated yet. */
unsigned ctl_listener_strangers(const struct ctl_listener *listener);

#endif
