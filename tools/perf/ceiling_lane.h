/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain blocking sockets, one thread each: what the machine moves with no library. The yardstick of
 * --ceiling, so nothing here uses libtcpx.
 */
#ifndef TOOLS_CEILING_LANE_H
#define TOOLS_CEILING_LANE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "perf_pattern.h"

#define CEILING_CALL_BYTES (512u << 10)
#define CEILING_LANES_MAX 128
#define CEILING_SECRET_BYTES 16

/* What a connection says first: whose it is. */
struct ceiling_hello {
	uint8_t secret[CEILING_SECRET_BYTES];
	uint32_t lane; /* little-endian */
};

/* One socket and its share of the buffers; a window moves so many bytes, round and round in it. */
struct ceiling_lane {
	int fd; /* -1: none */
	int sends;
	uint8_t *share;
	size_t share_bytes, bytes;
	pthread_t thread;
	int running;
};

/* The lanes of one end: first those to the server, then those back. */
struct ceiling_end {
	unsigned count, sockets;
	unsigned directions;
	uint8_t *to_server, *to_client;	  /* buffers of this end, NULL where unused */
	size_t working_set, buffer_bytes; /* of each direction: moved by a window; mapped */
	struct ceiling_lane lanes[CEILING_LANES_MAX];
};

/* Buffers and shares, no sockets yet. ring: bytes of a buffer, 0: the working set. is_server
 * decides who sends. 0; -1 with errno. */
int ceiling_end_init(struct ceiling_end *end, unsigned sockets, unsigned directions,
		     size_t working_set, size_t ring, int is_server);
void ceiling_end_fini(struct ceiling_end *end); /* closes the sockets, joins nothing */

/* The bytes as before a measured window: pattern at a source, poison at a destination. */
tcpx_status ceiling_end_fill(struct ceiling_end *end, int is_server, uint64_t seed,
			     const struct perf_leave *leave);

/* A window's bytes of a lane. 0; -1 as below. */
int ceiling_lane_send(const struct ceiling_lane *lane);
int ceiling_lane_receive(const struct ceiling_lane *lane);

/* Move exactly len bytes. 0; -1 with errno (0: the other end closed). */
int ceiling_send(int fd, const void *data, size_t len);
int ceiling_receive(int fd, void *data, size_t len);

/* Limit of every blocking call on the socket; 0: none. */
void ceiling_timeout(int fd, int seconds);

/* The congestion control the library's data channels are told to use, where TCPX_CONGESTION is. */
void ceiling_options(int fd);

#endif
