/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON document of perf. Base units only: bytes, seconds, bytes per second. */
#include "perf_json.h"

#include "cli_output.h"
#include "cli_values.h"

struct perf_json {
	struct cli_json *results, *channels;
	struct cli_json *row; /* the last one */
	unsigned paths;
	int several; /* the run has several paths */
	const struct cli_plugin *plugin;
};

static struct perf_json state; /* one document per process */

struct cli_json *perf_json_open(const struct perf_options *options)
{
	struct cli_json *json = cli_json_new();

	if (!json) {
		cli_error("--json: out of memory");
		return NULL;
	}
	cli_json_integer(json, "schema", 1);
	cli_json_text(json, "tool", "perf");
	cli_json_text(json, "version", tcpx_version());
	cli_json_text(json, "verdict", "failed");
	state = (struct perf_json){.several = perf_path_count(options) > 1,
				   .plugin = &options->plugin};
	return json;
}

static void perf_json_put_gpu(struct cli_json *path, const char *key,
			      const struct perf_end_memory *memory)
{
	struct cli_json *o;

	if (memory->place.kind != TCPX_MEM_CUDA)
		return;
	o = cli_json_object(path, key);
	if (!o)
		return;
	cli_json_integer(o, "ordinal", memory->place.device);
	cli_json_text(o, "pci", memory->pci);
	cli_json_text(o, "name", memory->name);
	if (memory->numa < 0)
		cli_json_null(o, "numa");
	else
		cli_json_integer(o, "numa", (uint64_t)memory->numa);
}

static void put_path(struct cli_json *parent, const struct perf_path *path)
{
	struct cli_json *o = cli_json_object(parent, "path");

	if (!o || !*path->transport) /* a path that never came up has no members */
		return;
	cli_json_text(o, "transport", path->transport);
	cli_json_text(o, "copy", path->copy);
	cli_json_integer(o, "channels", path->channels);
	cli_json_integer(o, "chunk", path->chunk_bytes);
	if (perf_by_plugin(path->want)) {
		cli_json_text(o, "plugin", state.plugin->file);
		cli_json_text(o, "nic", state.plugin->nic ? state.plugin->nic : "");
		cli_json_integer(o, "message_channels", path->message_channels);
		cli_json_text(o, "unpack", path->unpack);
		cli_json_text(o, "relay", path->relay);
	}
	cli_json_text(o, "congestion", path->congestion);
	cli_json_text(o, "local_mem", perf_place_kind(path->local.place.kind));
	cli_json_text(o, "remote_mem", perf_place_kind(path->remote.place.kind));
	perf_json_put_gpu(o, "local_gpu", &path->local);
	perf_json_put_gpu(o, "remote_gpu", &path->remote);
	cli_json_text(o, "trust", path->auth);
	cli_json_text(o, "remote_address", path->address);
	cli_json_text(o, "remote_host", path->host);
	cli_json_text(o, "remote_version", path->version);
}

void perf_json_path(struct cli_json *json, const struct perf_path *path)
{
	if (state.paths++)
		return;
	put_path(json, path);
	state.results = cli_json_array(json, "results");
}

static void put_time(struct cli_json *row, const struct perf_summary *time)
{
	struct cli_json *o = cli_json_object(row, "time");

	if (!o)
		return;
	cli_json_real(o, "mean", time->mean);
	cli_json_real(o, "min", time->min);
	cli_json_real(o, "p50", time->p50);
	cli_json_real(o, "p99", time->p99);
	cli_json_real(o, "max", time->max);
}

static void perf_json_put_pair(struct cli_json *row, const char *key, double local, double remote)
{
	struct cli_json *o = cli_json_object(row, key);

	if (!o)
		return;
	cli_json_real(o, "local", local);
	cli_json_real(o, "remote", remote);
}

static void put_limits(struct cli_json *row, const struct perf_meter *m)
{
	struct cli_json *o = cli_json_object(row, "sender_tcp");

	if (!o)
		return;
	cli_json_real(o, "busy", (double)m->busy_ns / 1e9);
	cli_json_real(o, "rwnd_limited", (double)m->rwnd_ns / 1e9);
	cli_json_real(o, "sndbuf_limited", (double)m->sndbuf_ns / 1e9);
	cli_json_integer(o, "retransmits", m->retransmits);
}

static void put_rate(struct cli_json *o, const char *key, double rate)
{
	if (rate > 0)
		cli_json_real(o, key, rate);
	else
		cli_json_null(o, key);
}

static void put_ceilings(struct cli_json *row, const struct ceiling_result *ceiling)
{
	struct cli_json *o = cli_json_object(row, "ceilings");

	if (!o)
		return;
	put_rate(o, "tcp", ceiling->tcp);
	put_rate(o, "d2h", ceiling->d2h);
	put_rate(o, "h2d", ceiling->h2d);
	put_rate(o, "peer", ceiling->peer);
}

void perf_json_row(struct cli_json *json, const struct perf_path *path,
		   const struct perf_row_plan *plan, const struct perf_result *r,
		   const struct ceiling_result *ceiling)
{
	struct cli_json *row = state.results ? cli_json_object(state.results, NULL) : NULL;
	double bytes = (double)r->iters * (double)plan->size;
	char op[16];

	(void)json;
	state.row = row;
	if (!row)
		return;
	cli_json_text(row, "op", cli_choice_text(PERF_OPS, plan->op, op, sizeof(op)));
	cli_json_integer(row, "size", plan->size);
	cli_json_integer(row, "batch", plan->batch);
	cli_json_integer(row, "depth", plan->depth);
	cli_json_integer(row, "iters", r->iters);
	cli_json_bool(row, "bidir", plan->bidir);
	cli_json_bool(row, "checked", plan->check);
	cli_json_real(row, "elapsed", (double)r->elapsed_ns / 1e9);
	cli_json_real(row, "bytes_per_second", r->bytes_per_second);
	put_time(row, &r->time);
	cli_json_integer(row, "wrong_bytes", r->wrong_bytes);
	perf_json_put_pair(row, "cpu_seconds_per_gb", (double)r->local.cpu_ns / bytes,
			   (double)r->remote.cpu_ns / bytes);
	put_limits(row, plan->op == PERF_OP_READ ? &r->remote : &r->local);
	if (ceiling && ceiling->bytes_per_second > 0) {
		cli_json_real(row, "ceiling_bytes_per_second", ceiling->bytes_per_second);
		put_ceilings(row, ceiling);
		perf_json_put_pair(row, "ceiling_cpu_seconds_per_gb", ceiling->cpu_local,
				   ceiling->cpu_remote);
	}
	if (ceiling && ceiling->one_way > 0)
		cli_json_real(row, "ceiling_one_way", ceiling->one_way);
	if (state.several)
		put_path(row, path);
}

void perf_json_intervals(const struct perf_interval *intervals, uint32_t count)
{
	struct cli_json *list = count && state.row ? cli_json_array(state.row, "intervals") : NULL;

	for (uint32_t i = 0; list && i < count; i++) {
		struct cli_json *o = cli_json_object(list, NULL);

		if (!o)
			return;
		cli_json_real(o, "start", intervals[i].start);
		cli_json_real(o, "end", intervals[i].end);
		cli_json_real(o, "bytes_per_second", intervals[i].bytes_per_second);
	}
}

void perf_json_channels(struct cli_json *json, const tcpx_channel_info *rows, unsigned count)
{
	if (!state.channels)
		state.channels = cli_json_array(json, "message_channels");
	for (unsigned i = 0; i < count; i++) {
		struct cli_json *o = cli_json_object(state.channels, NULL);

		if (!o)
			return;
		cli_json_integer(o, "path", state.paths - 1);
		cli_json_integer(o, "channel", rows[i].channel);
		cli_json_text(o, "nic", rows[i].nic);
		cli_json_integer(o, "sends_posted", rows[i].sends_posted);
		cli_json_integer(o, "sends_done", rows[i].sends_done);
		cli_json_integer(o, "posted", rows[i].posted);
		cli_json_integer(o, "done", rows[i].done);
		cli_json_integer(o, "unpacked", rows[i].unpacked);
		cli_json_integer(o, "consumed", rows[i].consumed);
	}
}

void perf_json_verdict(struct cli_json *json, const char *verdict, const char *error)
{
	static const struct perf_path none;

	if (!state.paths) /* the run failed before the first path */
		perf_json_path(json, &none);
	cli_json_text(json, "verdict", verdict);
	if (error)
		cli_json_text(json, "error", error);
}

void perf_json_merge(struct cli_json *json, struct cli_json *more, uint32_t first)
{
	cli_json_spread(more ? more : json, "path", "results");
	if (!more)
		return;
	cli_json_raise(more, "message_channels", "path", first);
	cli_json_extend(json, more, "results");
	cli_json_extend(json, more, "message_channels");
	cli_json_take(json, more, "verdict");
	cli_json_take(json, more, "error");
}
