/* SPDX-License-Identifier: Apache-2.0 */
/* One row of the table. In a window both ends fill and poison their buffers, the transfers run
 * while the clock runs from the first post to the last completion, and both ends compare. The
 * first window warms up: it is compared, but not timed. */
#include "perf_row.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli_output.h"
#include "perf_lines.h"

#define WINDOWS_MIN 3

struct row {
	struct perf_client *client;
	struct perf_side *side;
	const struct perf_row_plan *plan;
	struct perf_result *result;
	struct perf_samples samples;
	uint64_t windows; /* begun */
	int injected;
	int64_t began_ns;
};

static enum tcpx_op wire_op(enum perf_op op)
{
	if (op == PERF_OP_READ)
		return TCPX_OP_READ;
	return op == PERF_OP_SEND ? TCPX_OP_SEND : TCPX_OP_WRITE;
}

static struct perf_spec row_spec(const struct perf_row_plan *plan)
{
	return (struct perf_spec){
		.op = wire_op(plan->op),
		.working_set = plan->working_set > plan->size ? plan->working_set : plan->size,
		.size = plan->size,
		.batch = plan->batch,
		.depth = perf_one_way(plan->op) ? 1 : plan->depth,
		.kind = plan->remote.kind,
		.device = plan->remote.device,
		.bidir = (uint64_t)(plan->bidir || plan->op == PERF_OP_PINGPONG),
		.pong = plan->op == PERF_OP_PINGPONG,
		.seed = plan->seed,
		.check = (uint64_t)plan->check,
	};
}

tcpx_status perf_row_check(const struct perf_client *client, const struct perf_row_plan *plan)
{
	struct perf_spec spec = row_spec(plan);
	const char *wrong = NULL;

	if (plan->op != PERF_OP_NOTIFY)
		wrong = perf_spec_wrong(&spec, client->welcome.memory_limit);
	return wrong ? error_set(TCPX_ERR_INVALID, 0, "%s", wrong) : TCPX_OK;
}

/* Sets up buffers and requests at both ends. */
static tcpx_status row_begin(struct row *row)
{
	const struct perf_row_plan *plan = row->plan;
	struct perf_side *side = row->side;
	struct perf_spec spec = row_spec(plan);
	uint8_t tokens[PERF_TOKENS_BYTES];
	struct perf_message m;
	tcpx_status status;

	status = perf_side_open(side, &spec, &plan->local);
	if (status == TCPX_OK)
		status = perf_side_export(side, tokens);
	if (status != TCPX_OK)
		return status;
	perf_message_init(&m, PERF_ROW, 0);
	perf_message_put(&m, &spec, sizeof(spec));
	perf_message_blob(&m, tokens, sizeof(tokens));
	status = perf_send(row->client, &m);
	if (status == TCPX_OK)
		status = perf_answer(row->client, &m);
	if (status == TCPX_OK && m.blob_len != PERF_TOKENS_BYTES)
		return error_set(TCPX_ERR_PROTOCOL, 0, "the other end sent no tokens");
	return status == TCPX_OK ? perf_side_bind(side, m.blob) : status;
}

/* The timed part: this end's direction, and with bidir the other end's at the same time. */
static tcpx_status row_transfer(struct row *row, const struct perf_window *window, int64_t *out_ns)
{
	struct perf_message m;
	int64_t start = clock_now_ns();
	tcpx_status status = TCPX_OK;

	if (row->plan->op == PERF_OP_PINGPONG)
		return perf_pong_run(row->client, &row->side->out, (uint32_t)window->used,
				     &row->samples, out_ns);
	if (row->plan->bidir) {
		perf_message_init(&m, PERF_GO, 0);
		perf_message_put(&m, window, sizeof(*window));
		status = perf_send(row->client, &m);
	}
	if (status == TCPX_OK)
		status = perf_flow_run(&row->side->out, (uint32_t)window->used, &row->samples,
				       out_ns);
	if (status == TCPX_OK && row->plan->bidir) {
		status = perf_answer(row->client, &m);
		*out_ns = clock_now_ns() - start; /* until both directions have ended */
		if (status == TCPX_OK)
			status = perf_side_received(row->side, window);
	}
	return status;
}

/* The times of the transfers of a window, if each ends before the next one begins; NULL: they
 * overlap. */
static const uint64_t *each_alone(const struct row *row, uint64_t transfers)
{
	const struct perf_row_plan *plan = row->plan;

	if (plan->bidir || (plan->depth > 1 && !perf_one_way(plan->op)) ||
	    plan->op == PERF_OP_PINGPONG || row->samples.count < transfers)
		return NULL;
	return row->samples.values + row->samples.count - transfers;
}

static void account(struct row *row, const struct perf_window *window, int64_t ns,
		    const struct perf_meter *local, const struct perf_verdict *verdict)
{
	struct perf_result *r = row->result;
	struct perf_meter remote = {verdict->cpu_ns,	verdict->busy_ns,     verdict->rwnd_ns,
				    verdict->sndbuf_ns, verdict->retransmits, ""};
	uint64_t transfers = window->used * (row->plan->bidir ? 2 : 1);

	memcpy(remote.congestion, verdict->congestion, sizeof(remote.congestion) - 1);
	if (!window->measured) {
		row->samples.count = 0;
		row->samples.sum = 0;
		return;
	}
	perf_meter_add(&r->local, local);
	perf_meter_add(&r->remote, &remote);
	if (row->plan->perf_lines)
		perf_lines_window(r->iters, transfers, (uint64_t)ns, each_alone(row, transfers), 1);
	r->iters += transfers;
	r->elapsed_ns += (uint64_t)ns;
	r->bytes_per_second =
		(double)r->iters * (double)row->plan->size * 1e9 / (double)r->elapsed_ns;
	if (row->plan->op == PERF_OP_PINGPONG) /* counts both ways */
		r->bytes_per_second *= 2;
}

static tcpx_status run_window(struct row *row, uint64_t used, int measured)
{
	struct perf_window window = {
		.number = row->windows++,
		.used = used,
		.measured = (uint64_t)measured,
		.inject = row->plan->inject && measured && !row->injected,
	};
	struct perf_verdict verdict = {0};
	struct perf_message m;
	struct perf_meter meter;
	struct perf_wrong wrong;
	int64_t ns = 0;
	tcpx_status status, checked;

	row->injected |= (int)window.inject;
	perf_message_init(&m, PERF_ARM, 0);
	perf_message_put(&m, &window, sizeof(window));
	status = perf_send(row->client, &m);
	if (status != TCPX_OK)
		return status;
	status = perf_side_fill(row->side, &window); /* the other end prepares at the same time */
	if (status == TCPX_OK)
		status = perf_answer(row->client, &m);
	if (status == TCPX_OK)
		status = perf_side_receive(row->side, &window);
	if (status != TCPX_OK)
		return status;
	meter = perf_meter_start(row->client->session, row->client->peer);
	status = row_transfer(row, &window, &ns);
	meter = perf_meter_stop(&meter, row->client->session, row->client->peer);
	if (status != TCPX_OK)
		return status;
	perf_message_init(&m, PERF_END, 0);
	perf_message_put(&m, &window, sizeof(window));
	status = perf_send(row->client, &m);
	checked = perf_side_check(row->side, &window, &wrong);
	if (checked != TCPX_OK)
		return checked;
	if (status == TCPX_OK)
		status = perf_answer(row->client, &m);
	if (status == TCPX_OK && perf_message_get(&m, &verdict, sizeof(verdict)))
		status = error_set(TCPX_ERR_PROTOCOL, 0, "the other end sent a malformed verdict");
	if (status != TCPX_OK)
		return status;
	if ((wrong.count || verdict.wrong) && !row->result->wrong_bytes)
		row->result->first_wrong = wrong.count ? wrong.first : verdict.first;
	row->result->wrong_bytes += wrong.count + verdict.wrong;
	account(row, &window, ns, &meter, &verdict);
	return TCPX_OK;
}

/* Whether the row is over; also its progress and the number of transfers of the next window. */
static int row_over(const struct row *row, uint64_t whole, uint64_t *out_used, double *out_share)
{
	const struct perf_result *r = row->result;
	const struct perf_row_plan *plan = row->plan;
	uint64_t mine = r->iters / (plan->bidir ? 2 : 1);

	*out_used = whole;
	if (plan->iters) {
		*out_share = (double)mine / (double)plan->iters;
		if (plan->iters - mine < whole)
			*out_used = plan->iters - mine;
		return mine >= plan->iters;
	}
	*out_share = (double)(clock_now_ns() - row->began_ns) / (plan->seconds * 1e9);
	return row->windows > WINDOWS_MIN && *out_share >= 1;
}

tcpx_status perf_row_run(struct perf_client *client, struct perf_side *side,
			 const struct perf_row_plan *plan,
			 void (*progress)(void *arg, double share, double bytes_per_second),
			 void *arg, struct perf_result *out)
{
	struct row row = {
		.client = client,
		.side = side,
		.plan = plan,
		.result = out,
	};
	tcpx_status status;
	uint64_t used;
	double share;

	memset(out, 0, sizeof(*out));
	status = row_begin(&row);
	if (status == TCPX_OK) {
		row_over(&row, side->layout.transfers, &used, &share);
		status = run_window(&row, used, 0);
		row.began_ns = clock_now_ns();
	}
	while (status == TCPX_OK && !plan->settle &&
	       !row_over(&row, perf_side_most(side), &used, &share)) {
		progress(arg, share, out->bytes_per_second);
		status = perf_go_on(client);
		if (status == TCPX_OK)
			status = run_window(&row, used, 1);
	}
	if (status == TCPX_OK)
		status = perf_ask(client, PERF_ROW_END, NULL, 0, NULL, 0);
	if (status == TCPX_OK)
		out->time = perf_samples_summary(&row.samples, perf_one_way(plan->op) ? 0.5 : 1);
	perf_samples_free(&row.samples);
	if (status == TCPX_OK)
		perf_side_end(side);
	return status;
}
