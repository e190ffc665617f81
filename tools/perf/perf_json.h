/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON document of perf; docs/schema/perf.schema.json says what it holds. */
#ifndef TOOLS_PERF_JSON_H
#define TOOLS_PERF_JSON_H

#include "cli_json.h"
#include "perf_plan.h"
#include "perf_report.h"

/* NULL after a line on stderr. */
/* Rows and channels of another document, whose paths are numbered from first on; its verdict
 * counts. NULL: the document itself becomes one to which others are added. */
void perf_json_merge(struct cli_json *json, struct cli_json *more, uint32_t first);

struct cli_json *perf_json_open(const struct perf_options *options);

/* The document's path is the first one; where there are several each row carries its own. */
void perf_json_path(struct cli_json *json, const struct perf_path *path);
void perf_json_row(struct cli_json *json, const struct perf_path *path,
		   const struct perf_row_plan *plan, const struct perf_result *result,
		   const struct ceiling_result *ceiling);
/* Of the row that was added last. */
void perf_json_intervals(const struct perf_interval *intervals, uint32_t count);
/* error: why the run failed, NULL when it did not. */
/* Of the path that ran last. */
void perf_json_channels(struct cli_json *json, const tcpx_channel_info *rows, unsigned count);
void perf_json_verdict(struct cli_json *json, const char *verdict, const char *error);

#endif
