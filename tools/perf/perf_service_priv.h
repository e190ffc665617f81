/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one client of serve, for the thread and the handlers. */
#ifndef TOOLS_PERF_SERVICE_PRIV_H
#define TOOLS_PERF_SERVICE_PRIV_H

#include <pthread.h>

#include "ceiling_serve.h"
#include "perf_meter.h"
#include "perf_service.h"
#include "perf_side.h"

#define SERVICE_QUEUE 8

struct perf_service {
	struct perf_house *house;
	tcpx_peer peer;
	pthread_t thread;
	/* queue from the dispatcher to the thread */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct {
		size_t len;
		uint8_t data[PERF_MESSAGE_MAX];
	} queue[SERVICE_QUEUE];
	unsigned head, count;
	int stop;
	_Atomic int ended, hello, bye, back, worked;
	int relay_told;
	char failed[PERF_FAILED_MAX]; /* written by the dispatcher, before bye is set */
	/* used by the thread only */
	struct perf_side side;
	struct ceiling_serve *ceiling;
	uint64_t kind;			     /* kind of the memory of the row */
	uint64_t reserved, ceiling_reserved; /* bytes reserved from the limit of the house */
	/* bytes of the row that its first window has yet to touch */
	uint64_t untouched;
	int armed;
	struct perf_window window;
	struct perf_meter meter;
	int64_t armed_ns;
	char *facts; /* of PERF_FACTS */
	size_t facts_len;
	uint64_t row_transfers, row_ns; /* timed windows of the row, by the clock of this end */
	/* answers of a window of --op pingpong, posted by the dispatcher */
	pthread_mutex_t pong_lock;
	uint32_t pongs_posted, pongs; /* number of answers expected; 0: none */
};

/* Handles a decoded message and fills in the answer; a refusal has a text. */
void perf_service_handle(struct perf_service *service, const struct perf_message *request,
			 struct perf_message *reply);

/* Turns the answer into a refusal with a text. */
void perf_service_refuse(struct perf_message *reply, enum perf_answer status, const char *format,
			 ...) __attribute__((format(printf, 3, 4)));

/* perf_service_memory.c. Reserves bytes from the limit of the house in place of the previous
 * reservation. Returns 0 or -1. */
int perf_service_reserve(struct perf_service *service, uint64_t bytes, uint64_t *reserved);
void perf_service_give_back(struct perf_service *service, uint64_t *reserved);
/* Reserves the memory of a row; kept if the last row had the same. Returns 0, or -1 after a
 * refusal. */
int perf_service_take_row(struct perf_service *service, const struct perf_spec *spec,
			  struct perf_message *reply);
/* The pages of the row have been touched, so the kernel counts them now. */
void perf_service_touched(struct perf_service *service);

/* Before and after a window of --op pingpong. After end() the dispatcher touches no request of
 * the row; it returns how many were posted. */
void perf_service_pong_arm(struct perf_service *service, uint32_t used);
uint32_t perf_service_pong_end(struct perf_service *service);

/* PERF_FACTS; the text is kept until it is requested again or the client leaves. */
void perf_service_facts(struct perf_service *service, const struct perf_message *request,
			struct perf_message *reply);

/* Releases the reservation, after row and ceiling were closed. */
void perf_service_release(struct perf_service *service);

#endif
