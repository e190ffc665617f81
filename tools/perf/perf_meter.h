/* SPDX-License-Identifier: Apache-2.0 */
/* Cost of a window for this process: CPU time, and growth of the sums in TCP_INFO. */
#ifndef TOOLS_PERF_METER_H
#define TOOLS_PERF_METER_H

#include <stdint.h>

#include <tcpx/query.h>

struct perf_meter {
	uint64_t cpu_ns;
	uint64_t busy_ns, rwnd_ns, sndbuf_ns, retransmits;
	char congestion[16]; /* congestion control of this end's connections; "" without TCP */
};

/* User and system time of the process so far. */
uint64_t perf_cpu_ns(void);

/* Start reads the current state; stop returns the growth since start. Sums that shrank, because
 * a channel was replaced, count as 0. */
struct perf_meter perf_meter_start(tcpx_session *session, tcpx_peer peer);
struct perf_meter perf_meter_stop(const struct perf_meter *start, tcpx_session *session,
				  tcpx_peer peer);
void perf_meter_add(struct perf_meter *sum, const struct perf_meter *part);

#endif
