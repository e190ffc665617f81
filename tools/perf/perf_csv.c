/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of perf as comma-separated values. */
#include "perf_csv.h"

#include <errno.h>
#include <string.h>

#include "cli_output.h"

/* Named as the members of the JSON document. */
static const char columns[] = "op,transport,channels,chunk,local_mem,remote_mem,bidir,size,batch,"
			      "depth,iters,elapsed,bytes_per_second,time_mean,time_min,time_p50,"
			      "time_p99,time_max,wrong_bytes,checked,cpu_seconds_per_gb_local,"
			      "cpu_seconds_per_gb_remote,ceiling_bytes_per_second,ceiling_one_way";

FILE *perf_csv_open(const char *path)
{
	FILE *out = strcmp(path, "-") ? fopen(path, "we") : stdout;

	if (!out)
		cli_error("--csv %s: %s", path, strerror(errno));
	else
		fprintf(out, "%s\n", columns);
	return out;
}

static void put_known(FILE *out, double value)
{
	if (value > 0)
		fprintf(out, ",%.9g", value);
	else
		fputc(',', out);
}

void perf_csv_row(FILE *out, const struct perf_path *path, const struct perf_row_plan *plan,
		  const struct perf_result *r, const struct ceiling_result *ceiling)
{
	double bytes = (double)r->iters * (double)plan->size;
	char op[16];

	fprintf(out, "%s,%s,%u,%u,%s,%s,%d,%llu,%llu,%llu,%llu",
		cli_choice_text(PERF_OPS, plan->op, op, sizeof(op)), path->transport,
		path->channels, path->chunk_bytes, perf_place_kind(plan->local.kind),
		perf_place_kind(plan->remote.kind), plan->bidir, (unsigned long long)plan->size,
		(unsigned long long)plan->batch, (unsigned long long)plan->depth,
		(unsigned long long)r->iters);
	fprintf(out, ",%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%llu,%d,%.9g,%.9g",
		(double)r->elapsed_ns / 1e9, r->bytes_per_second, r->time.mean, r->time.min,
		r->time.p50, r->time.p99, r->time.max, (unsigned long long)r->wrong_bytes,
		plan->check, (double)r->local.cpu_ns / bytes, (double)r->remote.cpu_ns / bytes);
	put_known(out, ceiling ? ceiling->bytes_per_second : 0);
	put_known(out, ceiling ? ceiling->one_way : 0);
	fputc('\n', out);
	cli_flush(out);
}

int perf_csv_close(FILE *out, const char *path)
{
	int bad = fflush(out) || ferror(out), err = errno;

	if (out == stdout)
		return cli_flush(out);
	bad |= fclose(out);
	if (bad)
		cli_error("--csv %s: %s", path, strerror(err));
	return bad ? -1 : 0;
}
