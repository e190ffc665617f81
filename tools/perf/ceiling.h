/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --ceiling: what as many plain blocking sockets as there are channels move between the same two
 * processes: a thread per socket, 512 KiB calls, the same cold working set, the system's congestion
 * control. Measured in short windows between the rows; the median of the newest counts. An end with
 * GPU memory walks through buffers as large as a staging ring: its sockets see no more than that.
 */
#ifndef TOOLS_CEILING_H
#define TOOLS_CEILING_H

#include "perf_client.h"

#define CEILING_KEEP 9

struct ceiling;

struct ceiling_result {
	double bytes_per_second;      /* the smallest ceiling on the path; 0: not measured */
	double tcp;		      /* by plain sockets */
	double d2h, h2d, peer;	      /* by copy engines; 0: not on the path */
	double cpu_local, cpu_remote; /* seconds per 10^9 bytes */
	double one_way;		      /* seconds, for ping-pong; else 0 */
	char congestion[16];
};

/* Connects the sockets. ring: size of this end's buffers in bytes; 0: the working set. */
tcpx_status ceiling_open(struct perf_client *client, const struct perf_ceil_spec *spec, size_t ring,
			 struct ceiling **out_ceiling);

/* Measures the next windows: three the first time, then one. */
tcpx_status ceiling_measure(struct ceiling *ceiling);

/* Returns the medians of the newest windows. */
struct ceiling_result ceiling_get(const struct ceiling *ceiling);

void ceiling_close(struct ceiling *ceiling); /* NULL is allowed */

#endif
