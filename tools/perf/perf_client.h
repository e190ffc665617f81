/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of the control protocol: connects to a serve, sends requests, waits for
 * answers. */
#ifndef TOOLS_PERF_CLIENT_H
#define TOOLS_PERF_CLIENT_H

#include <tcpx/tcpx.h>

#include "perf_message.h"

struct perf_client {
	tcpx_session *session;
	tcpx_peer peer;
	int64_t deadline_ns; /* deadline of the whole run, absolute; 0: none */
	uint32_t last_id;
	int connected;
	struct perf_welcome welcome;
	char version[32], host[64];    /* of the other end */
	char addresses[PERF_BLOB_MAX]; /* addresses that it listens on, one per line */
	/* why the run failed, to be told to the other end; "": it did not */
	char failed[PERF_FAILED_MAX];
};

/* Opens the session, connects to "host:port" and says hello. key: the session there must have
 * it; NULL: any. On failure the last error is set and nothing stays open. */
tcpx_status perf_client_open(struct perf_client *client, const tcpx_session_opts *opts,
			     const char *address, const char *key, int64_t deadline_ns);

/* Says goodbye if the peer is alive and closes the session. back: the caller connects again at
 * once, so the other end must not count this as a client. */
void perf_client_close(struct perf_client *client, int back);

/* Sends a message; the answer will carry its id. */
tcpx_status perf_send(struct perf_client *client, struct perf_message *m);

/* Waits for the answer to the last message sent. A refusal is an error: ERR_INVALID (PERF_REFUSED)
 * or ERR_REMOTE, with the other end's text. ERR_CANCELLED: Ctrl-C. */
tcpx_status perf_answer(struct perf_client *client, struct perf_message *reply);

/* Sends a message with a body and waits for the answer; out_body, if given, receives its body. */
tcpx_status perf_ask(struct perf_client *client, uint8_t type, const void *body, size_t size,
		     void *out_body, size_t out_size);

/* TCPX_OK while the other end is alive; else the reason, also as the last error. */
tcpx_status perf_peer_lost(struct perf_client *client);

/* TCPX_OK; ERR_CANCELLED after Ctrl-C, ERR_TIMED_OUT after the run's deadline. */
tcpx_status perf_go_on(const struct perf_client *client);

/* The same as the callback of a struct perf_leave; arg is the client. */
tcpx_status perf_leave_client(const void *arg);

/* The time left until the deadline of the run in ns, at most limit_ns. */
int64_t perf_time_left(const struct perf_client *client, int64_t limit_ns);

#endif
