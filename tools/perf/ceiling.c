/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of --ceiling. */
#include "ceiling.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "ceiling_lane.h"
#include "ceiling_ping.h"
#include "perf_meter.h"
#include "perf_rails.h"
#include "sys/addr.h"
#include "sys/crypto.h"

#define CALL_SECONDS 20 /* time limit of a socket call */

struct sample {
	double bytes_per_second, cpu_local, cpu_remote, one_way;
};

struct worker {
	struct ceiling *ceiling;
	struct ceiling_lane *lane;
	int64_t start_ns, end_ns;
	int err; /* errno of the failed call; -1: the connection was closed */
};

struct ceiling {
	struct perf_client *client;
	struct ceiling_end end;
	enum ceiling_ping ping;
	struct worker workers[CEILING_LANES_MAX];
	pthread_barrier_t start, done;
	int threads, quit;
	uint64_t windows;
	struct sample samples[CEILING_KEEP];
	unsigned nsamples, next;
	char congestion[16];
};

/* Moves one window over one lane, until the other end confirms all bytes. */
static int run_lane(struct ceiling_lane *lane)
{
	uint8_t byte = 0;

	if (lane->sends)
		return ceiling_lane_send(lane) || ceiling_receive(lane->fd, &byte, 1);
	return ceiling_send(lane->fd, &byte, 1) || ceiling_lane_receive(lane);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	for (;;) {
		pthread_barrier_wait(&w->ceiling->start);
		if (w->ceiling->quit)
			return NULL;
		w->start_ns = clock_now_ns();
		w->err = 0;
		if (run_lane(w->lane))
			w->err = errno ? errno : -1;
		w->end_ns = clock_now_ns();
		pthread_barrier_wait(&w->ceiling->done);
	}
}

static int connect_lane(const struct sockaddr_storage *addr, const struct ceiling_hello *hello)
{
	int fd = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	ceiling_timeout(fd, CALL_SECONDS);
	if (connect(fd, (const struct sockaddr *)addr, sys_addr_len(addr)) ||
	    ceiling_send(fd, hello, sizeof(*hello))) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	ceiling_options(fd);
	return fd;
}

static tcpx_status connect_lanes(struct ceiling *c, const struct sockaddr_storage *addrs,
				 unsigned count, const uint8_t *secret)
{
	struct ceiling_hello hello;
	socklen_t len = sizeof(c->congestion);

	memcpy(hello.secret, secret, sizeof(hello.secret));
	for (unsigned i = 0; i < c->end.count; i++) {
		const struct sockaddr_storage *addr = &addrs[i % count];
		char text[SYS_ADDR_TEXT];

		hello.lane = htole32(i);
		c->end.lanes[i].fd = connect_lane(addr, &hello);
		if (c->end.lanes[i].fd < 0) {
			/* the time limit of the socket ended connect() */
			int silent = errno == EINPROGRESS || errno == EAGAIN;

			error_set(TCPX_ERR_UNREACHABLE, silent ? 0 : errno,
				  "ceiling: a plain socket to %s%s", sys_addr_text(addr, text),
				  silent ? " gets no answer" : "");
			return error_next("--ceiling takes a free port of the other end, which a "
					  "firewall must let through; or leave it out");
		}
	}
	if (getsockopt(c->end.lanes[0].fd, IPPROTO_TCP, TCP_CONGESTION, c->congestion, &len))
		c->congestion[0] = 0;
	c->congestion[sizeof(c->congestion) - 1] = 0;
	return TCPX_OK;
}

static tcpx_status start_workers(struct ceiling *c)
{
	if (pthread_barrier_init(&c->start, NULL, c->end.count + 1) ||
	    pthread_barrier_init(&c->done, NULL, c->end.count + 1))
		return error_set(TCPX_ERR_NO_MEMORY, 0, "ceiling: barriers");
	for (unsigned i = 0; i < c->end.count; i++) {
		struct worker *w = &c->workers[i];
		int err;

		w->ceiling = c;
		w->lane = &c->end.lanes[i];
		err = pthread_create(&w->lane->thread, NULL, worker_main, w);
		if (err)
			return error_set(TCPX_ERR_LIMIT, err, "ceiling: a thread");
		w->lane->running = 1;
		c->threads++;
	}
	return TCPX_OK;
}

tcpx_status ceiling_open(struct perf_client *client, const struct perf_ceil_spec *spec, size_t ring,
			 struct ceiling **out_ceiling)
{
	struct sockaddr_storage addrs[PERF_RAILS_MAX];
	uint8_t secret[CEILING_SECRET_BYTES];
	struct ceiling *c = calloc(1, sizeof(*c));
	struct perf_message m;
	unsigned count = 0;
	tcpx_status status;

	if (!c)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "ceiling");
	c->client = client;
	c->ping = (enum ceiling_ping)spec->ping;
	status = sys_random(secret, sizeof(secret));
	if (status == TCPX_OK &&
	    ceiling_end_init(&c->end, (unsigned)spec->sockets, (unsigned)spec->directions,
			     (size_t)spec->working_set, ring, 0))
		status = error_set(TCPX_ERR_NO_MEMORY, errno, "ceiling: buffers");
	if (status == TCPX_OK) {
		perf_message_init(&m, PERF_CEIL_OPEN, 0);
		perf_message_put(&m, spec, sizeof(*spec));
		perf_message_blob(&m, secret, sizeof(secret));
		status = perf_send(client, &m);
	}
	if (status == TCPX_OK)
		status = perf_answer(client, &m);
	if (status == TCPX_OK)
		status = perf_rails_reachable(client, (const char *)m.blob, addrs, &count);
	if (status == TCPX_OK)
		status = connect_lanes(c, addrs, count, secret);
	if (status == TCPX_OK && !c->ping)
		status = start_workers(c);
	if (status != TCPX_OK) {
		ceiling_close(c);
		return status;
	}
	*out_ceiling = c;
	return TCPX_OK;
}

/* The time from the start of the first lane to the end of the last one, and the first failure. */
static tcpx_status ceiling_collect(const struct ceiling *c, int64_t *out_ns)
{
	int64_t first = INT64_MAX, last = 0;

	for (unsigned i = 0; i < c->end.count; i++) {
		const struct worker *w = &c->workers[i];

		if (w->err)
			return error_set(TCPX_ERR_SYSTEM, w->err > 0 ? w->err : 0,
					 "ceiling: plain socket %u failed", i);
		first = w->start_ns < first ? w->start_ns : first;
		last = w->end_ns > last ? w->end_ns : last;
	}
	*out_ns = last - first;
	return TCPX_OK;
}

static struct sample *next_sample(struct ceiling *c)
{
	struct sample *s = &c->samples[c->next++ % CEILING_KEEP];

	c->nsamples += c->nsamples < CEILING_KEEP;
	*s = (struct sample){0};
	return s;
}

/* A series of round trips; the other end answers once it has been armed. */
static tcpx_status ping(struct ceiling *c, int keep)
{
	struct ceiling_lane *lane = &c->end.lanes[0];
	uint64_t number = ++c->windows;
	double half;
	tcpx_status status = TCPX_OK;

	if (number == 1)
		status = perf_ask(c->client, PERF_CEIL_ARM, &number, sizeof(number), NULL, 0);
	if (status != TCPX_OK)
		return status;
	if (ceiling_ping_measure(lane->fd, lane->share, lane->bytes, c->ping, &half))
		return error_set(TCPX_ERR_SYSTEM, errno, "ceiling: ping-pong failed");
	if (keep)
		next_sample(c)->one_way = half;
	return TCPX_OK;
}

static tcpx_status window(struct ceiling *c, int keep)
{
	uint64_t number = ++c->windows, cpu, remote_cpu;
	uint64_t bytes = c->end.working_set * (c->end.count / c->end.sockets);
	struct perf_leave leave = {perf_leave_client, c->client};
	struct perf_message m;
	struct sample *s;
	int64_t ns = 0;
	tcpx_status status;

	perf_message_init(&m, PERF_CEIL_ARM, 0);
	perf_message_put(&m, &number, sizeof(number));
	status = perf_send(c->client, &m);
	if (status == TCPX_OK)
		status = ceiling_end_fill(&c->end, 0, number, &leave);
	if (status == TCPX_OK)
		status = perf_answer(c->client, &m);
	if (status != TCPX_OK)
		return status;
	cpu = perf_cpu_ns();
	pthread_barrier_wait(&c->start);
	pthread_barrier_wait(&c->done);
	cpu = perf_cpu_ns() - cpu;
	status = ceiling_collect(c, &ns);
	if (status == TCPX_OK)
		status = perf_ask(c->client, PERF_CEIL_END, NULL, 0, &remote_cpu,
				  sizeof(remote_cpu));
	if (status != TCPX_OK || !keep)
		return status;
	s = next_sample(c);
	s->bytes_per_second = (double)bytes * 1e9 / (double)ns;
	s->cpu_local = (double)cpu / (double)bytes;
	s->cpu_remote = (double)remote_cpu / (double)bytes;
	return TCPX_OK;
}

tcpx_status ceiling_measure(struct ceiling *c)
{
	tcpx_status (*once)(struct ceiling * c, int keep) = c->ping ? ping : window;
	unsigned count = c->windows ? 1 : 3;
	tcpx_status status = TCPX_OK;

	if (!c->windows)
		status = once(c, 0); /* the first windows find cold pages and TCP windows */
	while (status == TCPX_OK && count--)
		status = once(c, 1);
	return status;
}

static int ceiling_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double ceiling_median(const struct ceiling *c, size_t field)
{
	double values[CEILING_KEEP];

	if (!c->nsamples)
		return 0;
	for (unsigned i = 0; i < c->nsamples; i++)
		values[i] = *(const double *)((const char *)&c->samples[i] + field);
	qsort(values, c->nsamples, sizeof(values[0]), ceiling_compare);
	return (values[(c->nsamples - 1) / 2] + values[c->nsamples / 2]) / 2;
}

struct ceiling_result ceiling_get(const struct ceiling *c)
{
	struct ceiling_result r = {
		.tcp = ceiling_median(c, offsetof(struct sample, bytes_per_second)),
		.cpu_local = ceiling_median(c, offsetof(struct sample, cpu_local)),
		.cpu_remote = ceiling_median(c, offsetof(struct sample, cpu_remote)),
		.one_way = ceiling_median(c, offsetof(struct sample, one_way)),
	};

	r.bytes_per_second = r.tcp;
	memcpy(r.congestion, c->congestion, sizeof(r.congestion));
	return r;
}

void ceiling_close(struct ceiling *c)
{
	if (!c)
		return;
	c->quit = 1;
	if (c->threads && c->threads < (int)c->end.count)
		return; /* some threads wait at a barrier that never opens, so this is not freed */
	if (c->threads) {
		pthread_barrier_wait(&c->start);
		for (unsigned i = 0; i < c->end.count; i++)
			pthread_join(c->end.lanes[i].thread, NULL);
	}
	ceiling_end_fini(&c->end);
	free(c);
}
