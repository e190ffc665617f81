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
	/* the queue: the dispatcher puts, the thread takes */
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
	char failed[PERF_FAILED_MAX]; /* the dispatcher's; set before bye is */
	/* the thread's own */
	struct perf_side side;
	struct ceiling_serve *ceiling;
	uint64_t kind;			     /* of the row's memory */
	uint64_t reserved, ceiling_reserved; /* bytes taken from the house's limit */
	uint64_t untouched;		     /* of the row's, until its first window fills them */
	int armed;
	struct perf_window window;
	struct perf_meter meter;
	int64_t armed_ns;
	char *facts; /* of PERF_FACTS */
	size_t facts_len;
	uint64_t row_transfers, row_ns; /* measured windows of the row, by our clock */
	/* the window's answers of --op pingpong, which the dispatcher posts */
	pthread_mutex_t pong_lock;
	uint32_t pongs_posted, pongs; /* of so many; 0: none is wanted */
};

/* Handles a decoded message and fills the answer; what is refused gets a text. */
void perf_service_handle(struct perf_service *service, const struct perf_message *request,
			 struct perf_message *reply);

/* The answer becomes a refusal, with a text. */
void perf_service_refuse(struct perf_message *reply, enum perf_answer status, const char *format,
			 ...) __attribute__((format(printf, 3, 4)));

/* perf_service_memory.c. Takes bytes from the house's limit in place of what was reserved before,
 * and gives them back. 0; -1. */
int perf_service_reserve(struct perf_service *service, uint64_t bytes, uint64_t *reserved);
void perf_service_give_back(struct perf_service *service, uint64_t *reserved);
/* The memory of a row; kept when it is that of the last one. 0; -1 after a refusal. */
int perf_service_take_row(struct perf_service *service, const struct perf_spec *spec,
			  struct perf_message *reply);
/* The row's pages are there: they are part of what the kernel counts. */
void perf_service_touched(struct perf_service *service);

/* Before and after a window of --op pingpong. After it the dispatcher touches no request of the
 * row; answers how many were posted. */
void perf_service_pong_arm(struct perf_service *service, uint32_t used);
uint32_t perf_service_pong_end(struct perf_service *service);

/* PERF_FACTS; the text is kept until it is asked for anew, or the client is gone. */
void perf_service_facts(struct perf_service *service, const struct perf_message *request,
			struct perf_message *reply);

/* Gives back what the house lent, after the row and the ceiling were closed. */
void perf_service_release(struct perf_service *service);

#endif
