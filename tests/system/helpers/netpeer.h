/* SPDX-License-Identifier: Apache-2.0 */
/* A session driven by lines on stdin, for the system tests: one command a line, one answer a line,
 * events in between. */
#ifndef HELPERS_NETPEER_H
#define HELPERS_NETPEER_H

#include <stdbool.h>
#include <stdio.h>

#include <tcpx/tcpx.h>

#define MEMORIES 8
#define REQUESTS 1024
#define WORDS 16

struct memory {
	uint8_t *data;
	uint64_t size;
	tcpx_region region;
};

struct request {
	tcpx_request handle;
	const char *op;
	bool used, active, looped;
	double posted;
};

struct netpeer {
	tcpx_session *session;
	tcpx_peer peer;
	struct memory memory[MEMORIES];
	tcpx_region remote[MEMORIES];
	struct request request[REQUESTS];
	uint32_t active;
	uint64_t rounds; /* of looped requests, ended well */
	bool loop, echo, deaf;
	FILE *trace;
};

double now(void);
/* "= ok ..." or "= ERR_X what" */
void answer(const char *format, ...) __attribute__((format(printf, 1, 2)));
void answer_status(tcpx_status status);

/* Runs one command; 1: it was one of these. */
int command_session(struct netpeer *np, char **word, int words);
int command_memory(struct netpeer *np, char **word, int words);
int command_load(struct netpeer *np, char **word, int words);

/* Completions, events and notifications that wait. */
void pump(struct netpeer *np);
void take_completions(struct netpeer *np);

void pattern_fill(uint8_t *p, uint64_t len, uint64_t seed, uint64_t position);
int64_t pattern_check(const uint8_t *p, uint64_t len, uint64_t seed, uint64_t position);

#endif
