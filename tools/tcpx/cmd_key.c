/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx key: makes shared key files, names the keys in one, and makes identity files. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <tcpx/query.h>

#include "cli_key.h"
#include "cli_output.h"
#include "commands.h"

struct key_options {
	int append;
};

static const struct cli_option options[] = {
	{"append", NULL, CLI_RULE_FLAG, offsetof(struct key_options, append), NULL, 0,
	 "new: add a second key to FILE (rotation)"},
};

static int key_make(const char *path, int append)
{
	tcpx_status status = tcpx_key_create(path, append);

	if (status != TCPX_OK)
		return cli_fail(status, "key new %s", path);
	fprintf(stderr, "%s: %s; copy it to the other hosts, mode 0600\n", path,
		append ? "key added" : "key made");
	return CLI_OK;
}

static int show_ids(const char *path)
{
	struct cli_key_ids keys;
	tcpx_status status;

	if (cli_key_read(path, &keys, &status)) {
		cli_error("key show-id %s: %s", path, strerror(errno));
		return CLI_FAILED;
	}
	if (status != TCPX_OK)
		return cli_fail(status, "key show-id");
	for (unsigned i = 0; i < keys.count && i < CLI_KEY_IDS_MAX; i++)
		puts(keys.ids[i]);
	if (keys.count)
		return CLI_OK;
	cli_error("key show-id %s: no key in it; make one with 'tcpx key new FILE'", path);
	return CLI_FAILED;
}

static int make_identity(const char *path)
{
	tcpx_status status = tcpx_identity_create(path);
	char key[65];

	if (status == TCPX_OK)
		status = tcpx_identity_key(path, key);
	if (status != TCPX_OK)
		return cli_fail(status, "key identity %s", path);
	puts(key);
	fprintf(stderr,
		"%s: identity made; set TCPX_IDENTITY_FILE to it for one session, and copy it "
		"nowhere\n",
		path);
	return CLI_OK;
}

static int key_command(const struct cli_command *command, int argc, char **argv)
{
	struct key_options o = {0};
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc != CLI_GO)
		return rc;
	if (!strcmp(argv[first], "new"))
		return key_make(argv[first + 1], o.append);
	if (o.append)
		return cli_usage("--append is for 'tcpx key new'");
	if (!strcmp(argv[first], "show-id"))
		return show_ids(argv[first + 1]);
	if (!strcmp(argv[first], "identity"))
		return make_identity(argv[first + 1]);
	return cli_usage("unknown action '%s'; usage: tcpx key new|show-id|identity FILE",
			 argv[first]);
}

const struct cli_command command_key = {
	.name = "key",
	.args = "new|show-id|identity FILE [options]",
	.summary = "Makes shared key files and identity files, names keys",
	COMMAND_OPTIONS(options),
	.min_args = 2,
	.max_args = 2,
	.run = key_command,
};
