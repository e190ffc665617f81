/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON document of perf, as described by docs/schema/perf.schema.json. */
#ifndef TOOLS_PERF_JSON_H
#define TOOLS_PERF_JSON_H

#include "cli_json.h"
#include "perf_plan.h"
#include "perf_report.h"

/* Adds the rows and channels of another document, with paths numbered from first on; takes its
 * verdict. more NULL: prepares json for adding others. */
void perf_json_merge(struct cli_json *json, struct cli_json *more, uint32_t first);

struct cli_json *perf_json_open(const struct perf_options *options);

/* The path of the document is the first one; if the run has several, each row has its own as
 * well. */
void perf_json_path(struct cli_json *json, const struct perf_path *path);
void perf_json_row(struct cli_json *json, const struct perf_path *path,
		   const struct perf_row_plan *plan, const struct perf_result *result,
		   const struct ceiling_result *ceiling);
/* Adds the intervals of the last row. */
void perf_json_intervals(const struct perf_interval *intervals, uint32_t count);
/* Adds the message channels of the last path. */
void perf_json_channels(struct cli_json *json, const tcpx_channel_info *rows, unsigned count);
void perf_json_verdict(struct cli_json *json, const char *verdict, const char *error);

#endif
