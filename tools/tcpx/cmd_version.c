/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx version. */
#include <stddef.h>
#include <stdio.h>

#include <tcpx/query.h>

#include "cli_json.h"
#include "cli_output.h"
#include "commands.h"

struct version_options {
	const char *json;
};

static const struct cli_option options[] = {
	{"json", "FILE", CLI_RULE_TEXT, offsetof(struct version_options, json), NULL, 0,
	 "write it as JSON", .letter = 'J', .implied = "-"},
};

static int version_command(const struct cli_command *command, int argc, char **argv)
{
	struct version_options o = {0};
	struct cli_json *json;
	FILE *out;
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc != CLI_GO)
		return rc;
	if (!o.json) {
		printf("tcpx %s\n", tcpx_version());
		return CLI_OK;
	}
	rc = cli_json_check();
	if (rc)
		return rc;
	out = cli_json_open(o.json);
	json = out ? cli_json_new() : NULL;
	if (!json)
		return CLI_FAILED;
	cli_json_integer(json, "schema", 1);
	cli_json_text(json, "tool", "version");
	cli_json_text(json, "version", tcpx_version());
	rc = cli_json_write(json, out, o.json) ? CLI_FAILED : CLI_OK;
	cli_json_free(json);
	return rc;
}

const struct cli_command command_version = {
	.name = "version",
	.args = "[options]",
	.summary = "Prints the version",
	COMMAND_OPTIONS(options),
	.run = version_command,
};
