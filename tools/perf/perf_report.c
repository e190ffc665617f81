/* SPDX-License-Identifier: Apache-2.0 */
/* Output of perf: prints rows to the table and collects them for the JSON document. */
#include "perf_report.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "cli_devmem.h"
#include "cli_json.h"
#include "cli_output.h"
#include "perf_channels.h"
#include "perf_csv.h"
#include "perf_json.h"
#include "perf_lines.h"
#include "perf_table.h"

#define BEST_MAX 8 /* transports of which the best row is remembered */

/* The best row over one transport. */
struct best {
	char transport[16];
	double rate, time; /* bytes a second; seconds one way, for latencies */
};

struct perf_report {
	const struct perf_options *options;
	FILE *out;
	struct perf_path path; /* path of the rows that follow */
	struct perf_meter sender;
	struct cli_json *json; /* NULL: not asked for */
	FILE *json_out;	       /* NULL: written, or none */
	FILE *csv;	       /* NULL: not asked for */
	uint64_t wrong;
	struct best best[BEST_MAX]; /* in the order of the rows */
	unsigned nbest;
	struct cli_devmem devmem;	 /* gpudirect */
	struct perf_interval *intervals; /* of the row that runs */
	uint32_t nintervals, room;
	int messages_came;   /* messages arrived at this end on this path */
	int messages_wanted; /* a transfer was large enough for messages */
	int unsteered;	     /* messages arrived and none was steered into GPU memory */
};

static int takes_stdout(const char *path)
{
	return path && !strcmp(path, "-");
}

struct perf_report *perf_report_open(const struct perf_options *options)
{
	struct perf_report *r = calloc(1, sizeof(*r));

	if (!r) {
		cli_error("no memory for the report");
		return NULL;
	}
	r->options = options;
	r->out = takes_stdout(options->json) || takes_stdout(options->csv) ? stderr : stdout;
	perf_lines_to(r->out);
	r->csv = options->csv ? perf_csv_open(options->csv) : NULL;
	r->json_out = options->json ? cli_json_open(options->json) : NULL;
	r->json = r->json_out ? perf_json_open(options) : NULL;
	if (!r->csv == !options->csv && !r->json == !options->json)
		return r;
	perf_report_close(r);
	return NULL;
}

/* Prints how many packets NICs steered into GPU memory at this end. */
static void end_devmem(struct perf_report *r)
{
	enum cli_devmem_verdict verdict;
	char text[512];

	if (r->path.want != PERF_TRANSPORT_GPUDIRECT)
		return;
	verdict = cli_devmem_end(&r->devmem, text, sizeof(text));
	fprintf(r->out, "# rx_devmem_pkts of this end: %s\n", text);
	/* host-recv has no steered packets on purpose. */
	if (r->messages_came && verdict == CLI_DEVMEM_NONE &&
	    strcmp(cli_plugin_unpack(), CLI_HOST_RECV) != 0)
		r->unsteered = 1;
	r->messages_came = 0;
}

static void end_path(struct perf_report *r)
{
	perf_table_limits(r->out, r->options, &r->sender);
	memset(&r->sender, 0, sizeof(r->sender));
	end_devmem(r);
}

void perf_report_path(struct perf_report *r, const struct perf_path *path,
		      const struct ceiling_result *ceiling)
{
	end_path(r);
	r->path = *path;
	if (path->want == PERF_TRANSPORT_GPUDIRECT)
		cli_devmem_start(&r->devmem, &r->options->plugin);
	perf_table_path(r->out, r->options, path, ceiling);
	cli_flush(r->out);
	if (r->json)
		perf_json_path(r->json, path);
}

static void note_best(struct perf_report *r, const struct perf_row_plan *plan,
		      const struct perf_result *result)
{
	struct best *best = r->best;

	while (best < r->best + r->nbest && strcmp(best->transport, r->path.transport) != 0)
		best++;
	if (best == r->best + BEST_MAX)
		return;
	if (best == r->best + r->nbest) {
		snprintf(best->transport, sizeof(best->transport), "%s", r->path.transport);
		r->nbest++;
	}
	if (perf_one_way(plan->op) && (best->time <= 0 || result->time.p50 < best->time))
		best->time = result->time.p50;
	else if (!perf_one_way(plan->op) && result->bytes_per_second > best->rate)
		best->rate = result->bytes_per_second;
}

/* Prints the best row of each transport: shared memory says nothing about the network. */
static void print_best(const struct perf_report *r)
{
	char rate[PERF_RATE_TEXT];

	for (unsigned i = 0; i < r->nbest; i++) {
		const struct best *best = &r->best[i];

		fputs(i ? ", " : "best ", r->out);
		if (best->time > 0)
			fprintf(r->out, "%.2f us one way", best->time * 1e6);
		else
			fputs(perf_rate_text(r->options, best->rate, rate), r->out);
		if (r->nbest > 1)
			fprintf(r->out, " over %s", best->transport);
	}
	fputc('\n', r->out);
}

void perf_report_interval(struct perf_report *r, uint64_t size, const struct perf_interval *one)
{
	cli_live("%s", "");
	perf_table_interval(r->out, r->options, size, one->start, one->end, one->bytes_per_second);
	if (r->nintervals == r->room) {
		uint32_t room = r->room ? 2 * r->room : 64;
		void *more = realloc(r->intervals, room * sizeof(*r->intervals));

		if (!more)
			return; /* it was shown */
		r->intervals = more;
		r->room = room;
	}
	r->intervals[r->nintervals++] = *one;
}

void perf_report_row(struct perf_report *r, const struct perf_row_plan *plan,
		     const struct perf_result *result, const struct ceiling_result *ceiling)
{
	cli_live("%s", "");
	perf_table_row(r->out, r->options, plan, result, ceiling);
	if (!perf_one_way(plan->op))
		perf_meter_add(&r->sender,
			       plan->op == PERF_OP_READ ? &result->remote : &result->local);
	r->wrong += result->wrong_bytes;
	r->messages_wanted |= plan->size / plan->batch > config_u64(CONFIG_MESSAGE_ABOVE);
	r->messages_came |= (plan->op == PERF_OP_READ || plan->bidir) &&
			    plan->size / plan->batch > config_u64(CONFIG_MESSAGE_ABOVE);
	note_best(r, plan, result);
	if (r->csv)
		perf_csv_row(r->csv, &r->path, plan, result, ceiling);
	if (r->json)
		perf_json_row(r->json, &r->path, plan, result, ceiling);
	if (r->json)
		perf_json_intervals(r->intervals, r->nintervals);
	r->nintervals = 0;
}

/* Results of tcp under the name of a plugin would mislead. */
static void note_unused(const struct perf_report *r, const tcpx_channel_info *rows, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (rows[i].sends_posted || rows[i].posted)
			return;
	if (r->messages_wanted && count)
		fprintf(r->out, "# NOTE: no channel of messages was used, all bytes went over tcp: "
				"they carry memory of the GPU that --gpu names at each end, host "
				"memory if the plugin unpacks nothing or with "
				"TCPX_PLUGIN_HOST=1\n");
}

void perf_report_channels(struct perf_report *r, tcpx_session *session, tcpx_peer peer)
{
	tcpx_channel_info rows[PERF_CHANNELS_MAX];
	tcpx_error error = *tcpx_last_error(); /* error of a failed row, which is printed later */
	unsigned count = perf_channels_read(session, peer, rows);

	if (r->options->plugin.verbose)
		perf_channels_print(r->out, rows, count);
	if (r->json)
		perf_json_channels(r->json, rows, count);
	note_unused(r, rows, count);
	error_raise(&error);
}

static const char *verdict(int code)
{
	switch (code) {
	case CLI_OK:
		return "ok";
	case CLI_WRONG_DATA:
		return "wrong_data";
	case CLI_TIMED_OUT:
		return "timed_out";
	default:
		return "failed";
	}
}

int perf_report_end(struct perf_report *r, int code)
{
	static const char *const lines[] = {"FAILED", "WRONG DATA", "TIMED OUT"};
	const char *why, *colour;

	cli_live("%s", "");
	end_path(r);
	if (r->unsteered && code == CLI_OK) {
		cli_error("bytes arrived, but no NIC counted a packet into GPU memory");
		code = CLI_FAILED;
	}
	colour = r->out != stdout ? "" : code ? cli_red() : cli_green();
	if (code == CLI_OK) {
		fprintf(r->out, "# result: %sOK%s, %s; ", colour, *colour ? cli_plain() : "",
			r->options->no_check ? "not checked" : "0 wrong bytes");
		print_best(r);
	} else {
		fprintf(r->out, "# result: %s%s%s", colour,
			lines[code == CLI_WRONG_DATA  ? 1
			      : code == CLI_TIMED_OUT ? 2
						      : 0],
			*colour ? cli_plain() : "");
		if (code == CLI_WRONG_DATA)
			fprintf(r->out, ", %llu wrong bytes", (unsigned long long)r->wrong);
		fputc('\n', r->out);
	}
	cli_flush(r->out);
	if (r->csv && perf_csv_close(r->csv, r->options->csv) && code == CLI_OK)
		code = CLI_FAILED;
	r->csv = NULL;
	if (!r->json)
		return code;
	why = *cli_error_text() ? cli_error_text() : "cannot write results";
	perf_json_verdict(r->json, verdict(code), code ? why : NULL);
	if (cli_json_write(r->json, r->json_out, r->options->json) && code == CLI_OK)
		code = CLI_FAILED;
	r->json_out = NULL;
	return code;
}

void perf_report_close(struct perf_report *r)
{
	if (!r)
		return;
	if (r->csv && r->csv != stdout)
		fclose(r->csv);
	if (r->json_out && r->json_out != stdout)
		fclose(r->json_out);
	cli_json_free(r->json);
	free(r->intervals);
	free(r);
}
