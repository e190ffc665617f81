/* SPDX-License-Identifier: Apache-2.0 */
/* The other end, a 'tcpx serve': connects, asks for its facts and measures. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "doctor_probe.h"
#include "doctor_rules.h"
#include "perf_connect.h"
#include "perf_side.h"

#define CONNECT_NS (4 * CLOCK_S_NS)
#define FACTS_MAX (256u << 10) /* most bytes that an unknown peer may send */
#define CLOCK_ASKED 8
#define PROBE_SECONDS 0.3
#define MIB (1ull << 20)
#define SMALL_BYTES 256
#define WHOLE_BYTES 65536
#define WHOLE_NS (CLOCK_S_NS * 11 / 5) /* shorter than the library takes to replace a channel */

struct pair {
	struct doctor_facts *facts;
	struct perf_options options;
	struct perf_client client;
	char *text; /* facts of the other end */
	size_t len;
	int64_t offset_ns;
	uint64_t error_ns; /* of the offset */
};

static int64_t real_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * CLOCK_S_NS + now.tv_nsec;
}

/* The fastest answer gives the best estimate of the other clock. */
static void learn_clock(struct pair *p, int64_t before, int64_t after, uint64_t theirs)
{
	uint64_t error = (uint64_t)(after - before) / 2;

	if (after < before || error >= p->error_ns)
		return;
	p->error_ns = error;
	p->offset_ns = (int64_t)theirs - (before + (int64_t)error);
}

/* Requests one part of the facts; *out_total is the size of all parts. */
static tcpx_status ask_part(struct pair *p, uint64_t offset, struct perf_message *m,
			    uint64_t *out_total)
{
	struct perf_facts_ask ask = {offset};
	struct perf_facts_part part;
	int64_t before, after;
	tcpx_status status;

	perf_message_init(m, PERF_FACTS, 0);
	perf_message_put(m, &ask, sizeof(ask));
	before = real_ns();
	status = perf_send(&p->client, m);
	if (status == TCPX_OK)
		status = perf_answer(&p->client, m);
	after = real_ns();
	if (status == TCPX_OK && perf_message_get(m, &part, sizeof(part)))
		status = error_set(TCPX_ERR_PROTOCOL, 0, "the other end sent no facts");
	if (status != TCPX_OK)
		return status;
	learn_clock(p, before, after, part.real_ns);
	*out_total = part.total;
	return TCPX_OK;
}

static tcpx_status ask_facts(struct pair *p)
{
	struct perf_message m;
	uint64_t total = 1;
	tcpx_status status = TCPX_OK;

	p->error_ns = UINT64_MAX;
	p->text = malloc(FACTS_MAX + 1);
	if (!p->text)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "the other end's facts");
	while (status == TCPX_OK && p->len < total) {
		status = ask_part(p, p->len, &m, &total);
		if (status == TCPX_OK && (total > FACTS_MAX || p->len + m.blob_len > total ||
					  (!m.blob_len && p->len < total)))
			status = error_set(TCPX_ERR_PROTOCOL, 0, "the other end's facts are cut");
		if (status != TCPX_OK)
			break;
		memcpy(p->text + p->len, m.blob, m.blob_len);
		p->len += m.blob_len;
	}
	for (unsigned i = 0; status == TCPX_OK && i < CLOCK_ASKED; i++)
		status = ask_part(p, total, &m, &total);
	p->text[p->len] = '\0';
	return status;
}

/* A newer version may send unknown facts, which are dropped. */
static void keep_facts(struct pair *p)
{
	char *line, *rest = p->text;

	while ((line = strsep(&rest, "\n")) != NULL) {
		char *value = strchr(line, '=');

		if (!value || !strncmp(line, "peer.", 5))
			continue;
		*value++ = '\0';
		doctor_put_text(p->facts, value, "peer.%s", line);
	}
	doctor_put_signed(p->facts, p->offset_ns, "clock.offset_ns");
	doctor_put_count(p->facts, p->error_ns, "clock.error_ns");
}

static void doctor_probe_peer_on_progress(void *arg, double share, double rate)
{
	(void)arg;
	(void)share;
	(void)rate;
}

/* Shares of the time that data was in flight, and what limited it most. */
static void doctor_probe_peer_put_limit(struct pair *p, const struct perf_result *r)
{
	uint64_t busy = r->local.busy_ns, window, buffer, cpu;
	char text[64] = "not attributed";

	if (!busy || !r->elapsed_ns)
		return;
	window = 100 * r->local.rwnd_ns / busy;
	buffer = 100 * r->local.sndbuf_ns / busy;
	cpu = 100 * r->local.cpu_ns / r->elapsed_ns;
	if (window >= 30 && window >= buffer)
		snprintf(text, sizeof(text), "receiver window, %llu %% of the time",
			 (unsigned long long)window);
	else if (buffer >= 30)
		snprintf(text, sizeof(text), "send buffer, %llu %% of the time",
			 (unsigned long long)buffer);
	else if (cpu >= 90)
		snprintf(text, sizeof(text), "CPU, %llu %% of a core", (unsigned long long)cpu);
	doctor_put_text(p->facts, text, "tcp.limit");
	doctor_put_count(p->facts, r->local.retransmits, "tcp.retransmits");
}

/* Measures a row of host memory. */
static tcpx_status doctor_probe_peer_run_row(struct pair *p, const struct perf_row_plan *plan,
					     struct perf_result *out)
{
	struct perf_side side = {
		.session = p->client.session,
		.peer = p->client.peer,
		.end = PERF_CLIENT,
		.deadline_ns = p->options.deadline_ns,
		.leave = {perf_leave_client, &p->client},
	};
	tcpx_status status = perf_row_check(&p->client, plan);

	if (status == TCPX_OK)
		status = perf_row_run(&p->client, &side, plan, doctor_probe_peer_on_progress, NULL,
				      out);
	perf_side_close(&side);
	return status;
}

/* Measures a short WRITE. */
static tcpx_status doctor_probe_peer_measure(struct pair *p, struct perf_result *out)
{
	const struct perf_row_plan plan = {
		.op = PERF_OP_WRITE,
		.size = MIB,
		.batch = 1,
		.depth = 16,
		.working_set = 16 * MIB,
		.seconds = PROBE_SECONDS,
	};

	return doctor_probe_peer_run_row(p, &plan, out);
}

static tcpx_status connect_by(struct pair *p, unsigned channels, const char *address)
{
	struct perf_path path = {.want = PERF_TRANSPORT_TCP, .want_channels = channels};

	return perf_connect(&p->options, &path, address, &p->client);
}

/* Whether full-sized packets arrive in that direction. They do not if a few small transfers pass
 * and one of several packets does not, within a time in which the library does not use smaller
 * packets yet. -1: the connection does not work at all. */
static int probe_way(struct pair *p, const struct doctor_probe_opts *opts, enum perf_op op,
		     const char *fact)
{
	struct perf_row_plan plan = {
		.op = op,
		.size = SMALL_BYTES,
		.batch = 1,
		.depth = 1,
		.working_set = WHOLE_BYTES,
		.iters = 4,
	};
	struct perf_result result;
	tcpx_status status;

	p->client.deadline_ns = p->options.deadline_ns = doctor_until(opts, WHOLE_NS);
	status = doctor_probe_peer_run_row(p, &plan, &result);
	if (status != TCPX_OK)
		return -1;
	plan.size = WHOLE_BYTES;
	plan.iters = 1;
	p->client.deadline_ns = p->options.deadline_ns = doctor_until(opts, WHOLE_NS);
	status = doctor_probe_peer_run_row(p, &plan, &result);
	/* If the deadline of all probes came first, nothing is known. */
	if (status == TCPX_OK ||
	    (status == TCPX_ERR_TIMED_OUT && p->client.deadline_ns < opts->deadline_ns))
		doctor_put_flag(p->facts, status == TCPX_OK, "%s", fact);
	return status == TCPX_OK ? 0 : -1;
}

/* A new connection, which uses full-sized packets again. */
static tcpx_status connect_anew(struct pair *p, const struct doctor_probe_opts *opts)
{
	tcpx_status status;

	perf_client_close(&p->client, 1);
	p->options.deadline_ns = doctor_until(opts, CONNECT_NS);
	status = connect_by(p, 1, opts->peer);
	p->client.deadline_ns = p->options.deadline_ns = opts->deadline_ns;
	return status;
}

static tcpx_status probe_path(struct pair *p, const struct doctor_probe_opts *opts)
{
	tcpx_status status = TCPX_OK;

	if (probe_way(p, opts, PERF_OP_READ, "path.in"))
		status = connect_anew(p, opts);
	if (status == TCPX_OK && probe_way(p, opts, PERF_OP_WRITE, "path.out"))
		status = connect_anew(p, opts);
	p->client.deadline_ns = p->options.deadline_ns = opts->deadline_ns;
	return status;
}

/* The total speed of the NICs that connect both ends directly. */
static void put_expected(struct doctor_facts *facts)
{
	uint64_t sum = 0, speed;
	const char *nic;

	for (unsigned i = 0; (nic = doctor_text(facts, "route.%u.nic", i)); i++) {
		int at = doctor_nic_index(facts, nic), again = 0;

		for (unsigned k = 0; k < i; k++)
			again |= !strcmp(nic, doctor_text(facts, "route.%u.nic", k));
		if (again)
			continue;
		if (at < 0 || doctor_count(facts, &speed, "nic.%d.speed_mbps", at))
			return;
		sum += speed * 1000000 / 8;
	}
	if (sum)
		doctor_put_count(facts, sum, "tcp.expected_bps");
}

/* Measures with one channel, and with the library's default number. */
static void probe_rates(struct pair *p, const char *address)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	struct perf_result result;

	if (doctor_probe_peer_measure(p, &result) != TCPX_OK)
		return;
	doctor_put_count(p->facts, (uint64_t)result.bytes_per_second, "tcp.single_bps");
	perf_client_close(&p->client, 0);
	if (connect_by(p, 0, address) != TCPX_OK ||
	    doctor_probe_peer_measure(p, &result) != TCPX_OK ||
	    tcpx_peer_query(p->client.session, p->client.peer, &info) != TCPX_OK)
		return;
	doctor_put_count(p->facts, (uint64_t)result.bytes_per_second, "tcp.multi_bps");
	doctor_put_count(p->facts, info.channels, "tcp.flows");
	doctor_probe_peer_put_limit(p, &result);
	put_expected(p->facts);
}

static void put_down(struct doctor_facts *facts)
{
	char why[300];

	text_format(why, sizeof(why), "%.140s; %.140s", error_last()->what, error_last()->next);
	doctor_put_text(facts, "down", "pair.state");
	doctor_put_text(facts, tcpx_status_name(error_last()->status), "pair.status");
	doctor_put_text(facts, why, "pair.why");
}

void doctor_probe_peer(struct doctor_facts *facts, const struct doctor_probe_opts *opts)
{
	struct pair p = {.facts = facts};
	tcpx_status status;

	doctor_put_text(facts, opts->peer, "pair.address");
	p.options.key = opts->key_file;
	p.options.insecure = opts->insecure;
	p.options.deadline_ns = doctor_until(opts, CONNECT_NS);
	if (connect_by(&p, 1, opts->peer) != TCPX_OK) {
		put_down(facts);
		return;
	}
	p.client.deadline_ns = p.options.deadline_ns = opts->deadline_ns;
	status = ask_facts(&p);
	if (status == TCPX_OK) {
		doctor_put_text(facts, "up", "pair.state");
		keep_facts(&p);
	} else {
		doctor_put_text(facts, "unknown", "pair.state");
		doctor_put_text(facts,
				status == TCPX_ERR_INVALID ? "it is too old to tell its facts"
							   : error_last()->what,
				"pair.why");
		doctor_put_text(facts, p.client.version, "peer.tool");
	}
	if (doctor_wants(opts, "D10,D12,D18,D21"))
		doctor_probe_rails(facts, opts, p.client.addresses);
	status = TCPX_OK;
	if (doctor_wants(opts, "D22"))
		status = probe_path(&p, opts);
	if (doctor_wants(opts, "D18") && status == TCPX_OK)
		probe_rates(&p, opts->peer);
	if (status == TCPX_OK)
		perf_client_close(&p.client, 0);
	free(p.text);
	if (doctor_wants(opts, "D03"))
		doctor_probe_devmem(facts, opts);
}
