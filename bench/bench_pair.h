/* SPDX-License-Identifier: Apache-2.0 */
/* A server session in a child process and a connected client session here, for API programs. */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

#include <stdint.h>
#include <sys/types.h>
#include <tcpx/tcpx.h>

struct bench_pair {
	tcpx_session *session;
	tcpx_peer peer;
	tcpx_region near_region, far_region;
	char *memory; /* of near_region */
	uint64_t bytes;
	pid_t child;
	int64_t connect_ns;
	int fd; /* open as long as the server shall live */
};

/* Connection info, token: what the server hands over. */
struct bench_offer {
	size_t len;
	unsigned char info[TCPX_INFO_MAX_BYTES];
	unsigned char token[TCPX_TOKEN_BYTES];
};

/* Ends the program unless the call went well. */
void must(const char *what, tcpx_status status);

/* Touched memory. */
char *bench_memory(uint64_t bytes);

/* A server session with memory that peers may read and write; the child's part after fork(). */
void bench_serve(struct bench_offer *out_offer, tcpx_session **out_session, uint64_t bytes,
		 uint32_t channels);

/* Opens all of it over TCP, with so many bytes on each side; channels 0: default. */
void bench_pair_open(struct bench_pair *pair, uint64_t bytes, uint32_t channels);

/* Posts one contiguous piece and waits; nanoseconds from post to the end. */
int64_t bench_write(struct bench_pair *pair, uint64_t bytes);

void bench_pair_close(struct bench_pair *pair);

#endif
