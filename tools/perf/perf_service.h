/* SPDX-License-Identifier: Apache-2.0 */
/* serve's work for one client: a thread that answers its messages in order. */
#ifndef TOOLS_PERF_SERVICE_H
#define TOOLS_PERF_SERVICE_H

#include <stdatomic.h>
#include <sys/socket.h>

#include <tcpx/tcpx.h>

#include "perf_message.h"

#define PERF_ADDRESSES_MAX 16

/* What all clients of a serve share. */
struct perf_house {
	tcpx_session *session;
	uint64_t memory_limit; /* bytes of buffers, all clients together */
	uint64_t kinds;	       /* bit set of allowed enum tcpx_mem_kind */
	uint64_t gpus;	       /* bit set of allowed ordinals */
	int perf_lines, quiet, verbose;
	_Atomic uint64_t memory_used;
	_Atomic uint64_t memory_untouched; /* of it, host memory whose pages come yet */
	struct sockaddr_storage addresses[PERF_ADDRESSES_MAX]; /* it listens on */
	unsigned naddresses;
};

struct perf_service;

/* Starts the thread. */
tcpx_status perf_service_start(struct perf_house *house, tcpx_peer peer,
			       struct perf_service **out_service);

/* Hands a message over; -1 when the client floods (it has more than a few unanswered). Never
 * blocks. Bytes are copied. */
int perf_service_give(struct perf_service *service, const void *data, size_t len);

/* A notification PERF_PONG came: the next WRITE of the window answers it. -1 when none is wanted or
 * the post fails. Never blocks. */
int perf_service_pong(struct perf_service *service);

/* The peer is gone: the thread ends its row and stops. */
void perf_service_stop(struct perf_service *service);

/* 1 when the thread has ended and perf_service_join() will not wait. */
int perf_service_ended(const struct perf_service *service);
void perf_service_join(struct perf_service *service);

/* What the client did. */
/* Whether a measurement, or a question for facts, was answered to its end. */
int perf_service_did_work(const struct perf_service *service);
/* Why the client's run failed, as its goodbye says; "": it says nothing. After the goodbye. */
const char *perf_service_failure(const struct perf_service *service);
int perf_service_said_hello(const struct perf_service *service);
int perf_service_said_bye(const struct perf_service *service);
int perf_service_comes_back(const struct perf_service *service); /* as another peer, at once */
tcpx_peer perf_service_peer(const struct perf_service *service);

#endif
