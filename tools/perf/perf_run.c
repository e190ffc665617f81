/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx perf from beginning to end: paths, sizes, verdict. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "ceiling_ping.h"
#include "cli_output.h"
#include "perf_channels.h"
#include "perf_connect.h"
#include "perf_engines.h"
#include "perf_lines.h"
#include "perf_loopback.h"
#include "perf_plan.h"
#include "perf_quiet.h"
#include "perf_report.h"
#include "perf_table.h"

#define SETTLE_BYTES (16u << 20)

/* State of the row at the end of the last interval. */
struct interval_mark {
	int64_t began_ns, at_ns; /* began_ns: begin of the row; 0: it has not begun */
	uint64_t elapsed_ns;
	double bytes;
};

/* One path while it is measured. */
struct run {
	const struct perf_options *options;
	struct perf_report *report;
	struct perf_path path;
	struct perf_client client;
	struct perf_side side;
	struct ceiling *ceiling;
	struct ceiling_rates rates;	  /* rates of copy engines */
	uint64_t size;			  /* size of the current row, for the live line */
	const struct perf_result *result; /* result of the current row so far */
	struct interval_mark mark;
	uint64_t wrong;
};

/* Reports the rate since the last interval, if --interval has passed or the row is over. The
 * rate counts timed windows only, without filling and comparing. */
static void report_interval(struct run *run, int over)
{
	const struct perf_result *r = run->result;
	double bytes = r->bytes_per_second * (double)r->elapsed_ns / 1e9;
	uint64_t elapsed_ns = r->elapsed_ns - run->mark.elapsed_ns;
	int64_t now = clock_now_ns(), began = run->mark.began_ns ? run->mark.began_ns : now;
	struct perf_interval one = {.start = (double)(run->mark.at_ns - began) / 1e9,
				    .end = (double)(now - began) / 1e9};
	int first = !run->mark.began_ns;

	if (!first && (!elapsed_ns || (!over && one.end - one.start < run->options->interval)))
		return;
	if (!first) {
		one.bytes_per_second = (bytes - run->mark.bytes) * 1e9 / (double)elapsed_ns;
		perf_report_interval(run->report, run->size, &one);
	}
	run->mark = (struct interval_mark){began, now, r->elapsed_ns, bytes};
}

static void perf_run_on_progress(void *arg, double share, double rate)
{
	struct run *run = arg;
	char bar[] = "--------------------", size[BYTES_TEXT_MAX], text[PERF_RATE_TEXT];
	size_t full = (size_t)(share * (sizeof(bar) - 1));

	for (size_t i = 0; i < full && i < sizeof(bar) - 1; i++)
		bar[i] = '#';
	if (run->options->interval > 0)
		report_interval(run, 0);
	cli_live("%6s  %s  %3.0f%%  %s", bytes_compact(run->size, size, sizeof(size)), bar,
		 share * 100, perf_rate_text(run->options, rate, text));
}

static struct perf_row_plan row_plan(const struct run *run, uint64_t size)
{
	const struct perf_options *o = run->options;

	return (struct perf_row_plan){
		.op = (enum perf_op)o->op,
		.size = size,
		.batch = o->batch,
		.depth = perf_one_way(o->op) ? 1 : o->depth,
		.working_set = o->working_set,
		.iters = o->iters,
		.seconds = o->seconds,
		.local = run->path.local.place,
		.remote = run->path.remote.place,
		.bidir = o->bidir,
		.check = !o->no_check,
		.inject = o->inject_fault,
		.perf_lines = o->perf_lines,
		.seed = o->seed,
	};
}

static tcpx_status perf_run_run_row(struct run *run, const struct perf_row_plan *plan,
				    struct perf_result *result)
{
	tcpx_status status;

	run->size = plan->size;
	run->result = result;
	run->mark = (struct interval_mark){0};
	if (plan->op == PERF_OP_NOTIFY)
		return perf_echo_run(&run->client, plan, perf_run_on_progress, run, result);
	status = perf_row_run(&run->client, &run->side, plan, perf_run_on_progress, run, result);
	if (status == TCPX_OK && run->options->interval > 0 && run->mark.began_ns)
		report_interval(run, 1);
	return status;
}

/* How this end unpacks messages, from the first message channel that does. */
static void read_unpack(const struct run *run, char *text, size_t cap)
{
	tcpx_channel_info info = {.sz = sizeof(info)};

	for (uint32_t i = 0; !*text && tcpx_channel_query(run->client.session, run->client.peer, i,
							  &info) == TCPX_OK;
	     i++)
		snprintf(text, cap, "%s", info.unpack);
}

/* Reads what the path turned out to be, for the header and the JSON. */
static tcpx_status learn_path(struct run *run)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	struct perf_path *path = &run->path;
	tcpx_status status = tcpx_peer_query(run->client.session, run->client.peer, &info);

	if (status != TCPX_OK)
		return status;
	snprintf(path->transport, sizeof(path->transport), "%s", info.transport);
	snprintf(path->copy, sizeof(path->copy), "%s", info.copy);
	snprintf(path->congestion, sizeof(path->congestion), "%s", info.congestion);
	snprintf(path->auth, sizeof(path->auth), "%s", info.auth);
	snprintf(path->address, sizeof(path->address), "%s", info.address);
	snprintf(path->version, sizeof(path->version), "%s", run->client.version);
	snprintf(path->host, sizeof(path->host), "%s", run->client.host);
	path->channels = info.channels;
	path->chunk_bytes = info.chunk_bytes;
	path->message_channels = info.message_channels;
	if (!perf_by_plugin(path->want))
		return TCPX_OK;
	read_unpack(run, path->unpack, sizeof(path->unpack));
	perf_channels_relay(run->client.session, run->client.peer, path->relay,
			    sizeof(path->relay));
	snprintf(path->transport, sizeof(path->transport), "%s",
		 path->want == PERF_TRANSPORT_PLUGIN ? "plugin" : "gpudirect");
	return TCPX_OK;
}

/* Fails if a plugin was requested and all bytes would go over tcp. */
static tcpx_status check_messages(const struct run *run)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	tcpx_status status = TCPX_OK;

	if (perf_by_plugin(run->path.want))
		status = tcpx_peer_query(run->client.session, run->client.peer, &info);
	if (status != TCPX_OK || !perf_by_plugin(run->path.want) || info.message_channels)
		return status;
	error_set(TCPX_ERR_UNSUPPORTED, 0,
		  "no channel of messages with the other end, everything would go over tcp: %s",
		  *info.message_error ? info.message_error : "the other end offers none");
	if (!*info.message_error)
		return error_next("serve --transport with the same plugin and chunk");
	return error_next("try 'tcpx doctor --peer %s'", info.address);
}

/* Checks all sizes before the first row, in case the other end refuses one. */
static tcpx_status check_sizes(const struct run *run)
{
	const struct perf_options *o = run->options;
	tcpx_status status = TCPX_OK;

	for (uint32_t i = 0; status == TCPX_OK && i < o->sizes.count; i++) {
		struct perf_row_plan plan = row_plan(run, o->sizes.values[i]);

		status = perf_row_check(&run->client, &plan);
	}
	return status;
}

/* A few unreported transfers, which touch pages, open lazy channels and grow TCP windows. */
static tcpx_status perf_run_settle(struct run *run)
{
	const struct cli_list *sizes = &run->options->sizes;
	struct perf_row_plan plan = row_plan(run, sizes->values[sizes->count - 1]);
	struct perf_result result;

	if (perf_one_way(plan.op) || plan.size < (1u << 20))
		return TCPX_OK;
	if (plan.batch == 1 && plan.size > SETTLE_BYTES)
		plan.size = SETTLE_BYTES;
	plan.settle = 1;
	plan.iters = 0;
	return perf_run_run_row(run, &plan, &result);
}

/* Bits as in perf_ceil_spec. */
static unsigned perf_run_directions(const struct perf_options *o)
{
	if (o->bidir)
		return 3;
	return o->op == PERF_OP_READ ? 2 : 1;
}

static size_t ring_bytes(const struct perf_end_memory *memory)
{
	return memory->place.kind == TCPX_MEM_CUDA ? CEILING_RING_BYTES : 0;
}

/* For bulk: as many sockets as channels. For latency: one socket with messages of the size of
 * the row. */
static tcpx_status open_ceiling(struct run *run, uint64_t size)
{
	const struct perf_options *o = run->options;
	uint64_t sockets = run->path.channels ? run->path.channels : run->path.want_channels;
	struct perf_ceil_spec spec = {
		.sockets = sockets ? sockets : 1,
		.directions = perf_run_directions(o),
		.working_set = o->working_set,
		.ring = ring_bytes(&run->path.remote),
	};
	tcpx_status status;

	if (perf_one_way(o->op))
		spec = (struct perf_ceil_spec){
			.sockets = 1,
			.directions = 1,
			.working_set = size,
			.ping = o->busy_poll ? CEILING_PING_SPINNING : CEILING_PING_BLOCKING,
		};
	status = ceiling_open(&run->client, &spec, spec.ping ? 0 : ring_bytes(&run->path.local),
			      &run->ceiling);
	if (status == TCPX_OK && !spec.ping)
		status = perf_engines_measure(&run->client, perf_run_directions(o), &run->path,
					      &run->rates);
	return status == TCPX_OK ? ceiling_measure(run->ceiling) : status;
}

/* Before a row: takes a new sample, or for latency opens a new ceiling if the size allows one. */
static tcpx_status next_ceiling(struct run *run, uint64_t size, int first)
{
	if (!run->options->ceiling)
		return TCPX_OK;
	if (!perf_one_way(run->options->op))
		return first ? TCPX_OK : ceiling_measure(run->ceiling);
	ceiling_close(run->ceiling);
	run->ceiling = NULL;
	return size <= CEILING_PING_MAX ? open_ceiling(run, size) : TCPX_OK;
}

/* NULL without a ceiling. */
static const struct ceiling_result *get_ceiling(const struct run *run, struct ceiling_result *out)
{
	if (!run->ceiling)
		return NULL;
	*out = ceiling_get(run->ceiling);
	if (!perf_one_way(run->options->op))
		perf_engines_apply(&run->rates, perf_run_directions(run->options), out);
	return out;
}

static tcpx_status run_sizes(struct run *run)
{
	const struct perf_options *o = run->options;
	tcpx_status status = TCPX_OK;

	for (uint32_t i = 0; status == TCPX_OK && i < o->sizes.count; i++) {
		struct perf_row_plan plan = row_plan(run, o->sizes.values[i]);
		struct ceiling_result ceiling;
		struct perf_result result;

		status = next_ceiling(run, plan.size, !i);
		if (status == TCPX_OK)
			status = perf_run_run_row(run, &plan, &result);
		if (status != TCPX_OK)
			return status;
		perf_report_row(run->report, &plan, &result, get_ceiling(run, &ceiling));
		if (o->perf_lines)
			perf_lines_row(result.iters, result.iters * plan.size, result.elapsed_ns);
		run->wrong += result.wrong_bytes;
		if (result.wrong_bytes)
			cli_error("%llu wrong bytes at size %llu, the first at offset %llu of the "
				  "destination",
				  (unsigned long long)result.wrong_bytes,
				  (unsigned long long)plan.size,
				  (unsigned long long)result.first_wrong);
		if (cli_flush(stdout))
			return error_set(TCPX_ERR_CANCELLED, 0, "the results cannot be written");
	}
	return status;
}

static tcpx_status run_connected(struct run *run)
{
	struct ceiling_result ceiling;
	tcpx_status status;

	run->side = (struct perf_side){
		.session = run->client.session,
		.peer = run->client.peer,
		.end = PERF_CLIENT,
		.deadline_ns = run->options->deadline_ns,
		.leave = {perf_leave_client, &run->client},
	};
	cli_live("connected, warming up");
	status = check_messages(run);
	if (status == TCPX_OK)
		status = perf_engines_find(&run->client, run->options, &run->path);
	if (status == TCPX_OK)
		status = check_sizes(run);
	if (status == TCPX_OK)
		status = perf_run_settle(run);
	if (status == TCPX_OK)
		status = learn_path(run);
	if (status == TCPX_OK && run->options->ceiling && !perf_one_way(run->options->op))
		status = open_ceiling(run, 0);
	if (status != TCPX_OK)
		return status;
	cli_live("%s", "");
	perf_report_path(run->report, &run->path, get_ceiling(run, &ceiling));
	status = run_sizes(run);
	if (perf_by_plugin(run->path.want))
		perf_report_channels(run->report, run->client.session, run->client.peer);
	return status;
}

/* In the last error, "peer 'NAME': what (ADDRESS)", replaces the name, which is made up, by what
 * the user calls the peer. Removes the address if that is the same. */
static void name_host(const struct perf_options *o)
{
	const char *host = o->loopback ? "the other process" : o->host;
	const tcpx_error *last = tcpx_last_error();
	const char *rest = strstr(last->what, "': ");
	tcpx_error error = *last;
	size_t len = strlen(host);
	char *address;

	if (strncmp(last->what, "peer '", 6) != 0 || !rest)
		return;
	text_format(error.what, sizeof(error.what), "%s%s", host, rest + 1);
	address = strrchr(error.what, '(');
	if (address && address[-1] == ' ' && !strncmp(address + 1, host, len) &&
	    (address[1 + len] == ':' || address[1 + len] == ')'))
		address[-1] = '\0';
	error_raise(&error);
}

/* Measures one path. Returns an exit code, CLI_OK also if bytes were wrong. */
static int run_path(struct run *run)
{
	const struct perf_options *o = run->options;
	char address[PERF_ADDRESS_TEXT];
	tcpx_error error = {.sz = sizeof(error)};
	tcpx_status status = TCPX_OK;
	int code = CLI_OK;

	if (o->loopback)
		status = perf_loopback_start(o, &run->path, address);
	else
		snprintf(address, sizeof(address), "%s", o->host);
	if (status == TCPX_OK)
		status = perf_connect(o, &run->path, address, &run->client);
	if (status != TCPX_OK) {
		code = cli_fail(status, "%s %s", o->loopback ? "starting on" : "connecting to",
				o->loopback ? "loopback" : o->host);
	} else {
		status = run_connected(run);
		if (status != TCPX_OK)
			error = *tcpx_last_error();
		if (status != TCPX_OK && cli_interrupted) {
			cli_error("interrupted");
			code = CLI_FAILED;
		} else if (status == TCPX_ERR_CANCELLED && cli_flush(stdout)) {
			code = CLI_FAILED; /* cli_finish() prints the cause */
		} else if (status != TCPX_OK) {
			name_host(o);
			code = cli_fail(status, "stopped");
		}
		perf_quiet_end(&error);
	}
	if (code != CLI_OK)
		text_format(run->client.failed, sizeof(run->client.failed), "%s", cli_error_text());
	else if (run->wrong)
		text_format(run->client.failed, sizeof(run->client.failed), "%llu wrong bytes",
			    (unsigned long long)run->wrong);
	ceiling_close(run->ceiling);
	run->ceiling = NULL;
	run->rates = (struct ceiling_rates){0};
	if (run->side.session)
		perf_side_close(&run->side);
	run->side = (struct perf_side){0};
	perf_client_close(&run->client, 0);
	perf_loopback_stop(status == TCPX_OK);
	return code;
}

int perf_run(const struct perf_options *o)
{
	struct run run = {.options = o};
	uint32_t nchannels = perf_list_count(&o->channels);
	uint32_t nchunks = perf_list_count(&o->chunks), total = perf_path_count(o);
	int code = CLI_OK;

	run.report = perf_report_open(o);
	if (!run.report)
		return CLI_FAILED;
	for (uint32_t i = 0; code == CLI_OK && i < total; i++) {
		run.path = (struct perf_path){
			.want = (enum perf_transport)o->transports.values[i / nchunks / nchannels],
			.want_channels = (uint32_t)o->channels.values[i / nchunks % nchannels],
			.want_chunk = (uint32_t)o->chunks.values[i % nchunks],
		};
		code = run_path(&run);
	}
	if (run.wrong)
		code = CLI_WRONG_DATA;
	code = perf_report_end(run.report, code);
	perf_report_close(run.report);
	return code;
}
