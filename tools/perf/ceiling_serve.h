/* SPDX-License-Identifier: Apache-2.0 */
/* The server's side of --ceiling: accepts the plain sockets of one client and answers with
 * acknowledgements only. */
#ifndef TOOLS_CEILING_SERVE_H
#define TOOLS_CEILING_SERVE_H

#include <sys/socket.h>

#include "ceiling_lane.h"
#include "ceiling_ping.h"

struct ceiling_serve;

/* Listens on each of the addresses ("10.0.0.1"), on a port of its own, and accepts in the
 * background until all lanes are connected or 10 s have passed. ports receives one port per
 * address. Returns 0, or -1 with errno. */
int ceiling_serve_open(unsigned sockets, unsigned directions, size_t working_set, size_t ring,
		       enum ceiling_ping ping, const uint8_t secret[CEILING_SECRET_BYTES],
		       const struct sockaddr_storage *addresses, unsigned count, uint16_t *ports,
		       struct ceiling_serve **out_serve);

/* Prepares a window: waits for the lanes before the first one, fills the buffers, notes the CPU
 * time. Returns 0, or -1 if not all lanes came. */
int ceiling_serve_arm(struct ceiling_serve *serve, uint64_t seed, const struct perf_leave *leave);

/* CPU time of the process since the last arm. */
uint64_t ceiling_serve_end(struct ceiling_serve *serve);

void ceiling_serve_close(struct ceiling_serve *serve); /* NULL is allowed */

#endif
