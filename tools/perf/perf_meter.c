/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time and TCP statistics of a window. */
#include "perf_meter.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

uint64_t perf_cpu_ns(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct perf_meter perf_meter_start(tcpx_session *session, tcpx_peer peer)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	struct perf_meter meter = {0};

	if (tcpx_peer_query(session, peer, &info) == TCPX_OK) {
		meter.busy_ns = info.busy_ns;
		meter.rwnd_ns = info.rwnd_limited_ns;
		meter.sndbuf_ns = info.sndbuf_limited_ns;
		meter.retransmits = info.retransmits;
		snprintf(meter.congestion, sizeof(meter.congestion), "%s", info.congestion);
	}
	meter.cpu_ns = perf_cpu_ns();
	return meter;
}

static uint64_t growth(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

struct perf_meter perf_meter_stop(const struct perf_meter *start, tcpx_session *session,
				  tcpx_peer peer)
{
	uint64_t cpu = perf_cpu_ns();
	struct perf_meter now = perf_meter_start(session, peer);

	now.cpu_ns = growth(start->cpu_ns, cpu);
	now.busy_ns = growth(start->busy_ns, now.busy_ns);
	now.rwnd_ns = growth(start->rwnd_ns, now.rwnd_ns);
	now.sndbuf_ns = growth(start->sndbuf_ns, now.sndbuf_ns);
	now.retransmits = growth(start->retransmits, now.retransmits);
	return now;
}

void perf_meter_add(struct perf_meter *sum, const struct perf_meter *part)
{
	sum->cpu_ns += part->cpu_ns;
	sum->busy_ns += part->busy_ns;
	sum->rwnd_ns += part->rwnd_ns;
	sum->sndbuf_ns += part->sndbuf_ns;
	sum->retransmits += part->retransmits;
	memcpy(sum->congestion, part->congestion, sizeof(sum->congestion));
}
