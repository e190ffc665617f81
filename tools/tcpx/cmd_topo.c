/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx topo: GPUs, NICs, NUMA nodes, their distances, and the NIC that owns each GPU. */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "cli_output.h"
#include "commands.h"
#include "topo_view.h"

struct topo_options {
	const char *root, *json, *svg;
	int no_rxdm;
};

static const struct cli_option options[] = {
	{"root", "DIR", CLI_RULE_TEXT, offsetof(struct topo_options, root), NULL, 0,
	 "sysfs root; other than /sys: a recorded machine"},
	{"json", "FILE", CLI_RULE_TEXT, offsetof(struct topo_options, json), NULL, 0,
	 "write everything as JSON", .letter = 'J', .implied = "-"},
	{"svg", "FILE|-", CLI_RULE_TEXT, offsetof(struct topo_options, svg), NULL, 0,
	 "draw the matrix"},
	{"no-rxdm", NULL, CLI_RULE_FLAG, offsetof(struct topo_options, no_rxdm), NULL, 0,
	 "do not ask RxDM which GPUs it knows"},
};

static int is_this_machine(const char *root)
{
	char real[PATH_MAX];

	return realpath(root, real) && !strcmp(real, "/sys");
}

static int topo_write_json(const struct topo_view *view, const char *path)
{
	FILE *out = cli_json_open(path);
	struct cli_json *json = out ? cli_json_new() : NULL;
	int rc;

	if (!json)
		return CLI_FAILED;
	topo_json_put(view, json);
	rc = cli_json_write(json, out, path) ? CLI_FAILED : CLI_OK;
	cli_json_free(json);
	return rc;
}

static int write_svg(const struct topo_view *view, const char *path)
{
	FILE *out = strcmp(path, "-") ? fopen(path, "we") : stdout;
	int bad;

	if (!out) {
		cli_error("--svg %s: %s", path, strerror(errno));
		return CLI_FAILED;
	}
	topo_svg_write(view, out);
	if (out == stdout)
		return cli_flush(out) ? CLI_FAILED : CLI_OK;
	bad = fflush(out) || ferror(out);
	if (fclose(out) || bad) {
		cli_error("--svg %s: %s", path, strerror(errno));
		return CLI_FAILED;
	}
	return CLI_OK;
}

static int topo_show(const struct topo_view *view, const struct topo_options *o)
{
	int rc = CLI_OK;

	if (o->svg)
		rc = write_svg(view, o->svg);
	if (rc == CLI_OK && o->json)
		rc = topo_write_json(view, o->json);
	if (!o->svg && !o->json)
		topo_text_print(view);
	return rc;
}

static int topo_command(const struct cli_command *command, int argc, char **argv)
{
	static struct topo_view view;
	struct topo_options o = {0};
	const char *root;
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc != CLI_GO)
		return rc;
	if (o.json && o.svg && !strcmp(o.json, "-") && !strcmp(o.svg, "-"))
		return cli_usage("--json - and --svg - both write to stdout; name a file for one");
	if (o.json && cli_json_check())
		return CLI_USAGE;
	root = o.root ? o.root : config_text(CONFIG_SYSFS);
	rc = topo_view_fill(&view, root, !is_this_machine(root), !o.no_rxdm);
	if (rc == CLI_OK)
		rc = topo_show(&view, &o);
	topo_view_free(&view);
	return rc;
}

const struct cli_command command_topo = {
	.name = "topo",
	.args = "[options]",
	.summary = "Shows GPUs and NICs, their distances, and the NIC of each GPU",
	COMMAND_OPTIONS(options),
	.run = topo_command,
};
