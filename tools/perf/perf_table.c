/* SPDX-License-Identifier: Apache-2.0 */
/* The table of perf, in the style of nccl-tests. */
#include "perf_table.h"

#include <string.h>

#include <tcpx/query.h>

#include "base/bytes.h"
#include "base/config.h"
#include "cli_output.h"

#define RATE_COLUMN 8

#define RETRANSMITS_MANY 1000u /* of the rows of a path */

static int beyond; /* a row of this path was faster than its ceiling */

static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

static const char *memory_text(const struct perf_end_memory *m, char *buf, size_t cap)
{
	if (m->place.kind != TCPX_MEM_CUDA)
		return perf_place_kind(m->place.kind);
	snprintf(buf, cap, "cuda:%u (%s, %s)", m->place.device, m->name, m->pci);
	return buf;
}

/* Whether all bulk data comes from another process, whose TCPX_CONGESTION counts. */
static int serve_sends(const struct perf_options *o)
{
	return o->op == PERF_OP_READ && !o->bidir && !o->loopback;
}

static double in_unit(uint64_t unit, double bytes_per_second)
{
	return bytes_per_second / 1e9 * (unit == PERF_UNIT_GBIT ? 8 : 1);
}

const char *perf_rate_text(const struct perf_options *o, double bytes_per_second,
			   char buf[PERF_RATE_TEXT])
{
	char unit[8];
	size_t len = 0;

	*buf = '\0';
	for (uint32_t i = 0; i < o->units.count && len < PERF_RATE_TEXT; i++)
		len += (size_t)snprintf(
			buf + len, PERF_RATE_TEXT - len, "%s%.2f %s/s", i ? ", " : "",
			in_unit(o->units.values[i], bytes_per_second),
			cli_choice_text(PERF_UNITS, o->units.values[i], unit, sizeof(unit)));
	return buf;
}

static void print_ceiling(FILE *out, const struct perf_options *o, const struct perf_path *path,
			  const struct ceiling_result *c)
{
	char rate[PERF_RATE_TEXT];

	fprintf(out, "# ceiling of the first row: %s by %u plain sockets (%s), %.3f cpu-s/GB\n",
		perf_rate_text(o, c->tcp, rate), path->channels, or_dash(c->congestion),
		c->cpu_local + c->cpu_remote);
	if (c->d2h > 0)
		fprintf(out, "# ceiling: %s by the copy engine, GPU to host\n",
			perf_rate_text(o, c->d2h, rate));
	if (c->h2d > 0)
		fprintf(out, "# ceiling: %s by the copy engine, host to GPU\n",
			perf_rate_text(o, c->h2d, rate));
	if (c->peer > 0)
		fprintf(out, "# ceiling: %s by a copy from GPU to GPU\n",
			perf_rate_text(o, c->peer, rate));
}

void perf_table_path(FILE *out, const struct perf_options *o, const struct perf_path *path,
		     const struct ceiling_result *ceiling)
{
	char op[16], chunk[BYTES_TEXT_MAX], ws[BYTES_TEXT_MAX], local[128], remote[128];

	fprintf(out, "# tcpx %s %s  ->  %s (%s, tcpx %s)  1 GB = 10^9 bytes, sizes IEC\n",
		tcpx_version(), cli_choice_text(PERF_OPS, o->op, op, sizeof(op)),
		or_dash(path->address), or_dash(path->host), or_dash(path->version));
	fprintf(out,
		"# path: transport %s %s%s channels %u%s  chunk %s  congestion %s%s  trust %s\n",
		path->transport, path->copy, *path->copy ? " " : "", path->channels,
		perf_by_plugin(path->want) ? " of tcp" : "",
		bytes_compact(path->chunk_bytes, chunk, sizeof(chunk)), or_dash(path->congestion),
		serve_sends(o) && *path->congestion ? " (this end; serve sends)" : "",
		or_dash(path->auth));
	if (perf_by_plugin(path->want))
		fprintf(out,
			"# messages: plugin %s  NIC %s%s%s%s%s  channels %u  (up to %s: tcp)\n",
			o->plugin.file, o->plugin.nic ? o->plugin.nic : "by default",
			*path->relay ? "  relay " : "", path->relay,
			*path->unpack ? "  unpack " : "", path->unpack, path->message_channels,
			bytes_compact(config_u64(CONFIG_MESSAGE_ABOVE), ws, sizeof(ws)));
	fprintf(out, "# memory: local %s  remote %s  working set %s  batch %llu  depth %llu%s\n",
		memory_text(&path->local, local, sizeof(local)),
		memory_text(&path->remote, remote, sizeof(remote)),
		bytes_compact(o->working_set, ws, sizeof(ws)), (unsigned long long)o->batch,
		(unsigned long long)(perf_one_way(o->op) ? 1 : o->depth),
		o->bidir ? "  both directions" : "");
	if (ceiling)
		print_ceiling(out, o, path, ceiling);
	if (path->channels && path->channels < path->want_channels)
		fprintf(out, "# note: %u channels were asked for, the other end takes %u\n",
			path->want_channels, path->channels);
	if (path->chunk_bytes && path->chunk_bytes < path->want_chunk)
		fprintf(out, "# note: chunks of %s were asked for, the other end takes %s\n",
			bytes_compact(path->want_chunk, ws, sizeof(ws)),
			bytes_compact(path->chunk_bytes, chunk, sizeof(chunk)));
	if (!strcmp(path->auth, "insecure"))
		fprintf(out, "# INSECURE: whoever reaches the port may connect\n");
	if (path->want == PERF_TRANSPORT_GPUDIRECT && !strcmp(cli_plugin_unpack(), CLI_UNPACK_NONE))
		fprintf(out,
			"# INVALID DATA: unpack none, what arrives stays in the plugin's pages\n");
	if (o->no_check)
		fprintf(out,
			"# NOT CHECKED: --no-check, the bytes that arrived were not compared\n");
	if (!strcmp(path->congestion, "bbr") && !strncmp(path->address, "127.", 4))
		fprintf(out,
			"# note: bbr paces loopback; cubic or reno move up to twice as much\n");
	if (o->ceiling && perf_one_way(o->op))
		fprintf(out, "# ceiling: half a round trip of a plain %s socket, median\n",
			o->busy_poll ? "spinning" : "blocking");
	fprintf(out, "#%10s %8s %11s", "size", "iters", "time(us)");
	for (uint32_t i = 0; i < o->units.count; i++)
		fprintf(out, " %*s/s", RATE_COLUMN - 2,
			cli_choice_text(PERF_UNITS, o->units.values[i], op, sizeof(op)));
	fprintf(out, " %10s %10s %9s", "p50(us)", "p99(us)", "cpu-s/GB");
	if (o->ceiling)
		fprintf(out, " %8s", perf_one_way(o->op) ? "ceil(us)" : "ceil");
	fprintf(out, " %7s %8s\n", "%ceil", "#wrong");
}

void perf_table_row(FILE *out, const struct perf_options *o, const struct perf_row_plan *plan,
		    const struct perf_result *r, const struct ceiling_result *ceiling)
{
	int one_way = perf_one_way(plan->op);
	double bytes = (double)r->iters * (double)plan->size;
	double cpu = (double)(r->local.cpu_ns + r->remote.cpu_ns) / bytes;
	char size[BYTES_TEXT_MAX], share[16] = "-", wrong[24] = "-", cost[16] = "-";
	char limit[16] = "-"; /* the ceiling: microseconds, or the first unit of the rate */
	double part = 0;      /* % of the ceiling */

	if (ceiling && ceiling->one_way > 0) {
		part = 100 * ceiling->one_way / r->time.p50;
		snprintf(limit, sizeof(limit), "%.2f", ceiling->one_way * 1e6);
	} else if (ceiling && ceiling->bytes_per_second > 0) {
		part = 100 * r->bytes_per_second / ceiling->bytes_per_second;
		snprintf(limit, sizeof(limit), "%.3f",
			 in_unit(o->units.values[0], ceiling->bytes_per_second));
	}
	if (part > 0)
		snprintf(share, sizeof(share), "%.1f", part);
	beyond |= part > 100;
	if (plan->check || r->wrong_bytes)
		snprintf(wrong, sizeof(wrong), "%llu", (unsigned long long)r->wrong_bytes);
	if (plan->size >= 4096) /* below that the value means nothing */
		snprintf(cost, sizeof(cost), "%.3f", cpu);
	fprintf(out, " %10s %8llu %11.2f", bytes_compact(plan->size, size, sizeof(size)),
		(unsigned long long)r->iters,
		(double)r->elapsed_ns / (double)r->iters / 1e3 / (one_way ? 2 : 1));
	for (uint32_t i = 0; i < o->units.count; i++) {
		if (plan->op == PERF_OP_LATENCY) /* one small WRITE at a time is not a rate */
			fprintf(out, " %*s", RATE_COLUMN, "-");
		else
			fprintf(out, " %*.3f", RATE_COLUMN,
				in_unit(o->units.values[i], r->bytes_per_second));
	}
	fprintf(out, " %10.2f %10.2f %9s", r->time.p50 * 1e6, r->time.p99 * 1e6, cost);
	if (o->ceiling)
		fprintf(out, " %8s", limit);
	fprintf(out, " %7s %s%8s%s\n", share, r->wrong_bytes && out == stdout ? cli_red() : "",
		wrong, r->wrong_bytes && out == stdout ? cli_plain() : "");
	cli_flush(out);
}

void perf_table_interval(FILE *out, const struct perf_options *o, uint64_t size, double start,
			 double end, double bytes_per_second)
{
	char text[BYTES_TEXT_MAX], rate[PERF_RATE_TEXT];

	fprintf(out, "#%10s %7.2f..%-7.2f s  %s\n", bytes_compact(size, text, sizeof(text)), start,
		end, perf_rate_text(o, bytes_per_second, rate));
	cli_flush(out);
}

/* Which process has to be started with another TCPX_CONGESTION. */
static const char *senders_text(const struct perf_options *o)
{
	if (serve_sends(o))
		return "'tcpx serve' at the other end";
	if (o->bidir && !o->loopback)
		return "this command, and for 'tcpx serve' at the other end";
	return "this command";
}

void perf_table_limits(FILE *out, const struct perf_options *o, const struct perf_meter *sender)
{
	double busy = (double)sender->busy_ns;

	if (beyond)
		fprintf(out,
			"# %%ceil above 100 is no error: the row was faster than plain sockets, "
			"which were measured alone, just before it\n");
	beyond = 0;
	if (busy <= 0)
		return;
	fprintf(out,
		"# limited by (TCP_INFO of the sending end, %s): receiver's window %.0f %%, send "
		"buffer %.0f %%, else network or sender; %llu retransmits\n",
		or_dash(sender->congestion), 100 * (double)sender->rwnd_ns / busy,
		100 * (double)sender->sndbuf_ns / busy, (unsigned long long)sender->retransmits);
	if (sender->retransmits > RETRANSMITS_MANY && !strncmp(sender->congestion, "bbr", 3))
		fprintf(out, "# many retransmits with %s: set TCPX_CONGESTION=cubic for %s\n",
			sender->congestion, senders_text(o));
}
