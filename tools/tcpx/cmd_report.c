/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx report: slow links and stragglers of a mesh, curves of perf, and drawings of them. */
#include <stddef.h>

#include "cli_output.h"
#include "commands.h"
#include "report.h"
#include "report_curve.h"
#include "report_plot.h"

struct report_options {
	const char *output;
	uint64_t slow;
};

static const struct cli_option options[] = {
	{"output", "FILE", CLI_RULE_TEXT, offsetof(struct report_options, output), NULL, 0,
	 "draw it as well: .svg, .png or .html", .letter = 'o'},
	{"slow",
	 "PERCENT",
	 {CLI_COUNT, 1, 99},
	 offsetof(struct report_options, slow),
	 "20",
	 0,
	 "links this far below the median are slow"},
};

static int report_show(const struct report *report, const struct report_options *o,
		       const char *path)
{
	struct report_findings findings;
	int rc = CLI_FAILED;

	if (report_judge(report, (double)o->slow, &findings)) {
		cli_error("no memory for %u links", report->ncells);
	} else {
		report_print(report, &findings, stdout);
		rc = o->output ? report_draw(report, &findings, path, o->output) : CLI_OK;
		if (rc == CLI_OK && findings.wrong)
			rc = CLI_WRONG_DATA;
	}
	report_findings_free(&findings);
	return rc;
}

/* Curves of one run or several. */
static int report_runs(const struct report_options *o, char *const *paths, unsigned count)
{
	static struct report_curves curves;
	int rc = CLI_OK;

	for (unsigned i = 0; i < count && rc == CLI_OK; i++)
		rc = report_curves_read(&curves, paths[i]) ? CLI_FAILED : CLI_OK;
	if (rc == CLI_OK) {
		report_curves_print(&curves, stdout);
		rc = o->output ? report_curves_draw(&curves, o->output) : CLI_OK;
	}
	if (rc == CLI_OK && curves.wrong)
		rc = CLI_WRONG_DATA;
	report_curves_free(&curves);
	return rc;
}

static int report_command(const struct cli_command *command, int argc, char **argv)
{
	struct report_options o = {NULL};
	struct report report;
	const char *why;
	int first, rc;

	rc = cli_parse(command, argc, argv, &o, &first);
	if (rc != CLI_GO)
		return rc;
	why = o.output ? report_draw_check(o.output) : NULL;
	if (why)
		return cli_usage("--output '%s': %s", o.output, why);
	if (report_is_perf(argv[first])) {
		if (cli_given(command, "slow"))
			return cli_usage("--slow is for a result of 'tcpx mesh'");
		return report_runs(&o, argv + first, (unsigned)(argc - first));
	}
	if (argc - first > 1)
		return cli_usage(
			"several files are for results of 'tcpx perf', which %.200s is not",
			argv[first]);
	if (report_read(argv[first], &report))
		return CLI_FAILED;
	rc = report_show(&report, &o, argv[first]);
	report_free(&report);
	return rc;
}

const struct cli_command command_report = {
	.name = "report",
	.args = "[options] RESULT.json...",
	.summary = "Draws results of perf and mesh, names slow links",
	COMMAND_OPTIONS(options),
	.min_args = 1,
	.max_args = REPORT_RUNS_MAX,
	.run = report_command,
};
