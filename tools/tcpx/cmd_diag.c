/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx diag: collects what a machine looks like around a command, and compares two such folders. */
#include <stddef.h>
#include <string.h>

#include "cli_output.h"
#include "commands.h"
#include "diag_collect.h"
#include "diag_snapshot.h"

struct diag_command {
	const char *out, *name;
	int mask;
};

#define AT(field) offsetof(struct diag_command, field)

static const struct cli_option options[] = {
	{"out", "DIR", CLI_RULE_TEXT, AT(out), NULL, 0,
	 "where folders are made (default: the user's state)"},
	{"name", "NAME", CLI_RULE_TEXT, AT(name), NULL, 0,
	 "first part of the folder name [the command's]"},
	{"mask", NULL, CLI_RULE_FLAG, AT(mask), NULL, 0, "hide addresses and the host's name"},
};

static int diag_action(const struct cli_command *command, int argc, char **argv)
{
	struct diag_command o = {0};
	struct diag_options collect;
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc != CLI_GO)
		return rc;
	if (!strcmp(argv[first], "collect")) {
		collect = (struct diag_options){o.out, o.name, o.mask, argv + first + 1};
		return diag_collect(&collect);
	}
	if (!strcmp(argv[first], "counters") && argc - first == 1) {
		diag_counters(stdout);
		return CLI_OK;
	}
	if (strcmp(argv[first], "compare"))
		return cli_usage("unknown action '%s'; usage: tcpx diag %s", argv[first],
				 command->args);
	if (argc - first != 3)
		return cli_usage("compare takes two folders of 'tcpx diag collect'");
	if (o.out || o.name || o.mask)
		return cli_usage("--out, --name and --mask are for 'tcpx diag collect'");
	return diag_compare(argv[first + 1], argv[first + 2]);
}

const struct cli_command command_diag = {
	.name = "diag",
	.args = "collect [options] [-- COMMAND...] | compare DIR DIR | counters",
	.summary = "Collects diagnostics around a command; compares two folders",
	COMMAND_OPTIONS(options),
	.min_args = 1,
	.max_args = 4096,
	.run = diag_action,
};
