/* SPDX-License-Identifier: Apache-2.0 */
/* perf's end of the control protocol: connect to a serve, ask, wait for the answer. */
#ifndef TOOLS_PERF_CLIENT_H
#define TOOLS_PERF_CLIENT_H

#include <tcpx/tcpx.h>

#include "perf_message.h"

struct perf_client {
	tcpx_session *session;
	tcpx_peer peer;
	int64_t deadline_ns; /* of the whole run, absolute; 0: none */
	uint32_t last_id;
	int connected;
	struct perf_welcome welcome;
	char version[32], host[64];    /* of the other end */
	char addresses[PERF_BLOB_MAX]; /* it listens on, one a line */
	char failed[PERF_FAILED_MAX];  /* why the run did, for the other end; "": it did not */
};

/* Opens the session, connects to "host:port", where only the session of that key will do (NULL:
 * any), and says hello. On failure the last error is set and nothing is left. */
tcpx_status perf_client_open(struct perf_client *client, const tcpx_session_opts *opts,
			     const char *address, const char *key, int64_t deadline_ns);

/* Says goodbye where the peer still lives, closes the session. back: the caller connects again at
 * once, so that the other end counts no client yet. */
void perf_client_close(struct perf_client *client, int back);

/* Sends a message; the id of it is what the answer carries. */
tcpx_status perf_send(struct perf_client *client, struct perf_message *m);

/* Waits for the answer to the last message sent. A refusal is an error: ERR_INVALID (PERF_REFUSED)
 * or ERR_REMOTE, with the other end's text. ERR_CANCELLED: Ctrl-C. */
tcpx_status perf_answer(struct perf_client *client, struct perf_message *reply);

/* Both, with a body and, when out_body is given, the body of the answer. */
tcpx_status perf_ask(struct perf_client *client, uint8_t type, const void *body, size_t size,
		     void *out_body, size_t out_size);

/* TCPX_OK while the other end lives; else the reason, also as the last error. */
tcpx_status perf_peer_lost(struct perf_client *client);

/* TCPX_OK; ERR_CANCELLED after Ctrl-C, ERR_TIMED_OUT after the run's deadline. */
tcpx_status perf_go_on(const struct perf_client *client);

/* The same as the question of a struct perf_leave; arg is the client. */
tcpx_status perf_leave_client(const void *arg);

/* Ns left until the run's deadline, at most limit_ns. */
int64_t perf_time_left(const struct perf_client *client, int64_t limit_ns);

#endif
