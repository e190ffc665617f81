/* SPDX-License-Identifier: Apache-2.0 */
/* One client of serve: a thread that answers its messages in order. */
#ifndef TOOLS_PERF_SERVICE_H
#define TOOLS_PERF_SERVICE_H

#include <stdatomic.h>
#include <sys/socket.h>

#include <tcpx/tcpx.h>

#include "perf_message.h"

#define PERF_ADDRESSES_MAX 16

/* State that all clients of a serve share. */
struct perf_house {
	tcpx_session *session;
	uint64_t memory_limit; /* bytes of buffers, all clients together */
	uint64_t kinds;	       /* bit set of allowed enum tcpx_mem_kind */
	uint64_t gpus;	       /* bit set of allowed ordinals */
	int perf_lines, quiet, verbose;
	int64_t idle_ns; /* serve ends after such a time without a client; 0: it does not */
	_Atomic uint64_t memory_used;
	/* of it, host memory whose pages have not been touched yet */
	_Atomic uint64_t memory_untouched;
	struct sockaddr_storage addresses[PERF_ADDRESSES_MAX]; /* it listens on */
	unsigned naddresses;
};

struct perf_service;

/* Starts the thread. */
tcpx_status perf_service_start(struct perf_house *house, tcpx_peer peer,
			       struct perf_service **out_service);

/* Queues a copy of a message. Returns -1 if the client has too many unanswered messages. Never
 * blocks. */
int perf_service_give(struct perf_service *service, const void *data, size_t len);

/* To be called for a notification PERF_PONG: posts the next WRITE of the window as the answer.
 * Returns -1 if none is expected or the post fails. Never blocks. */
int perf_service_pong(struct perf_service *service);

/* Tells the thread that the peer has left: it ends its row and stops. */
void perf_service_stop(struct perf_service *service);

/* 1 if the thread has ended, so that perf_service_join() does not wait. */
int perf_service_ended(const struct perf_service *service);
void perf_service_join(struct perf_service *service);

/* What the client did. */
/* Whether a measurement, or a request for facts, was completed. */
int perf_service_did_work(const struct perf_service *service);
/* Why the run of the client failed, by its goodbye; "": not told. Call it after the goodbye. */
const char *perf_service_failure(const struct perf_service *service);
int perf_service_said_hello(const struct perf_service *service);
int perf_service_said_bye(const struct perf_service *service);
/* Whether it comes back at once as another peer. */
int perf_service_comes_back(const struct perf_service *service);
tcpx_peer perf_service_peer(const struct perf_service *service);

#endif
