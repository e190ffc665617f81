/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate of WRITEs with a trace compared with the rate without. Both ends are in this process,
 * and recording is switched on and off in turn: between two processes of two runs the rate differs
 * by more than a trace costs. The call through the recording channel stays in both.
 * Usage: trace_goodput FILE SECONDS [PLUGIN]. FILE is the trace, PLUGIN an ncclNet plugin.
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <tcpx/tcpx.h>

#include "bench_pair.h"
#include "bench_util.h"
#include "trace/recorder.h"

#define DEPTH 4
#define BYTES (4u << 20)
#define SLICE_NS 20000000 /* time for which recording is on, or off */
#define BLOCKS_MAX 10000  /* of four slices: on, off, off, on; or the opposite */

struct end {
	tcpx_session *session;
	tcpx_region near_region, far_region;
	tcpx_peer peer;
};

static void end_open(struct end *end, const char *plugin)
{
	TCPX_OPTS(tcpx_session_opts, opts,
		  .flags = TCPX_SESSION_NO_LOCAL | TCPX_SESSION_PLUGIN_HOST, .plugin = plugin);
	TCPX_OPTS(tcpx_region_opts, shared, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);

	must("open", tcpx_session_open(&opts, &end->session));
	must("register", tcpx_region_register(end->session, bench_memory((size_t)DEPTH * BYTES),
					      (size_t)DEPTH * BYTES, &shared, &end->near_region));
}

static void ends_connect(struct end *client, struct end *server)
{
	unsigned char info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	uint16_t port;
	size_t len;

	must("listen", tcpx_session_listen(server->session, NULL, &port));
	must("info", tcpx_session_info(server->session, info, sizeof(info), &len));
	must("export", tcpx_region_export(server->session, server->near_region, token));
	must("connect", tcpx_session_connect(client->session, info, len, NULL, &client->peer));
	must("import", tcpx_region_import(client->session, client->peer, token, sizeof(token),
					  &client->far_region));
}

static tcpx_request start(struct end *client, unsigned slot)
{
	tcpx_segment piece = {.local = client->near_region,
			      .local_offset = (uint64_t)slot * BYTES,
			      .remote = client->far_region,
			      .remote_offset = (uint64_t)slot * BYTES,
			      .length = BYTES};
	tcpx_request request;

	must("start", tcpx_request_start(client->session, client->peer, TCPX_OP_WRITE, &piece, 1,
					 NULL, &request));
	return request;
}

struct sums {
	double bytes, ns, cpu;
};

static double rate(const struct sums *s)
{
	return s->bytes / s->ns;
}

/* Completes WRITEs, each of which is followed by the next one, for SLICE_NS. */
static void slice(struct end *client, tcpx_request requests[DEPTH], struct sums *sums)
{
	static unsigned next;
	int64_t begin = now_ns(), now;
	double cpu = cpu_seconds();

	do {
		must("wait",
		     tcpx_request_wait(client->session, requests[next], TCPX_WAIT_FOREVER, NULL));
		tcpx_request_release(client->session, requests[next]);
		requests[next] = start(client, next);
		next = (next + 1) % DEPTH;
		sums->bytes += BYTES;
		now = now_ns();
	} while (now - begin < SLICE_NS);
	sums->ns += (double)(now - begin);
	sums->cpu += cpu_seconds() - cpu;
}

static int by_ratio(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static double ratios[BLOCKS_MAX];
	struct sums all[2] = {{0}}; /* without a trace, with it */
	struct end client, server;
	tcpx_request requests[DEPTH];
	struct trace_recorder_counts counts;
	double sum = 0, squares = 0, mean;
	int64_t until;
	int blocks = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: trace_goodput FILE SECONDS [PLUGIN]\n");
		return 2;
	}
	setenv("TCPX_TRACE", argv[1], 1);
	end_open(&server, argc > 3 ? argv[3] : NULL);
	end_open(&client, argc > 3 ? argv[3] : NULL);
	ends_connect(&client, &server);
	for (unsigned i = 0; i < DEPTH; i++)
		requests[i] = start(&client, i);
	for (int i = 0; i < 20; i++) /* warms caches, connections and the rings */
		slice(&client, requests, &(struct sums){0});
	until = now_ns() + (int64_t)(atof(argv[2]) * 1e9);
	for (; now_ns() < until && blocks < BLOCKS_MAX; blocks++) {
		struct sums block[2] = {{0}};

		for (int i = 0; i < 4; i++) {
			int on = (i == 1 || i == 2) ^ (blocks & 1);

			atomic_store(&trace_recorder_on, on);
			slice(&client, requests, &block[on]);
		}
		ratios[blocks] = rate(&block[1]) / rate(&block[0]);
		sum += log(ratios[blocks]);
		squares += log(ratios[blocks]) * log(ratios[blocks]);
		for (int on = 0; on < 2; on++) {
			all[on].bytes += block[on].bytes;
			all[on].ns += block[on].ns;
			all[on].cpu += block[on].cpu;
		}
	}
	atomic_store(&trace_recorder_on, 1);
	trace_recorder_counts(&counts);
	for (unsigned i = 0; i < DEPTH; i++)
		must("wait",
		     tcpx_request_wait(client.session, requests[i], TCPX_WAIT_FOREVER, NULL));
	tcpx_session_close(client.session);
	tcpx_session_close(server.session);
	if (blocks < 2 || !counts.written) {
		fprintf(stderr, "no records were written to %s\n", counts.path);
		return 1;
	}
	mean = sum / blocks;
	qsort(ratios, (size_t)blocks, sizeof(ratios[0]), by_ratio);
	/* The logarithms' mean: a ratio and its inverse count alike. */
	printf("{\"blocks\": %d, \"ratio\": %.4f, \"ratio_median\": %.4f, \"error\": %.4f, "
	       "\"bytes_per_second\": %.0f, \"cpu_ratio\": %.4f, \"records\": %llu, "
	       "\"dropped\": %llu}\n",
	       blocks, exp(mean), ratios[blocks / 2],
	       sqrt((squares / blocks - mean * mean) / (blocks - 1)), rate(&all[1]) * 1e9,
	       (all[1].cpu / all[1].bytes) / (all[0].cpu / all[0].bytes),
	       (unsigned long long)counts.written, (unsigned long long)counts.dropped);
	return 0;
}
