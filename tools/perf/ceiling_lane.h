/* SPDX-License-Identifier: Apache-2.0 */
/* Plain blocking sockets, one thread each, as the yardstick of --ceiling. Nothing here uses
 * libtcpx. */
#ifndef TOOLS_CEILING_LANE_H
#define TOOLS_CEILING_LANE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "perf_pattern.h"

#define CEILING_CALL_BYTES (512u << 10)
#define CEILING_LANES_MAX 128
#define CEILING_SECRET_BYTES 16

/* The first bytes on a connection, which identify it. */
struct ceiling_hello {
	uint8_t secret[CEILING_SECRET_BYTES];
	uint32_t lane; /* little-endian */
};

/* One socket and its share of the buffers; a window moves window bytes through the share,
 * wrapping around. */
struct ceiling_lane {
	int fd; /* -1: none */
	int sends;
	uint8_t *share;
	size_t share_bytes, bytes;
	pthread_t thread;
	int running;
};

/* The lanes of one end: those to the server first, then those back. */
struct ceiling_end {
	unsigned count, sockets;
	unsigned directions;
	uint8_t *to_server, *to_client;	  /* buffers of this end; NULL: unused */
	size_t working_set, buffer_bytes; /* per direction: bytes moved by a window; bytes mapped */
	struct ceiling_lane lanes[CEILING_LANES_MAX];
};

/* Allocates buffers and shares, without sockets. ring: bytes of a buffer, 0: the working set.
 * is_server decides which end sends. Returns 0, or -1 with errno. */
int ceiling_end_init(struct ceiling_end *end, unsigned sockets, unsigned directions,
		     size_t working_set, size_t ring, int is_server);
void ceiling_end_fini(struct ceiling_end *end); /* closes the sockets, joins no thread */

/* Fills the buffers as before a measured window: a source with the pattern, a destination with
 * poison. */
tcpx_status ceiling_end_fill(struct ceiling_end *end, int is_server, uint64_t seed,
			     const struct perf_leave *leave);

/* Moves the bytes of one window over a lane. Returns as below. */
int ceiling_lane_send(const struct ceiling_lane *lane);
int ceiling_lane_receive(const struct ceiling_lane *lane);

/* Move exactly len bytes. 0; -1 with errno (0: the other end closed). */
int ceiling_send(int fd, const void *data, size_t len);
int ceiling_receive(int fd, void *data, size_t len);

/* Sets the time limit of every blocking call on the socket; 0: none. */
void ceiling_timeout(int fd, int seconds);

/* Sets the congestion control of TCPX_CONGESTION, if set, as for the library's data channels. */
void ceiling_options(int fd);

#endif
