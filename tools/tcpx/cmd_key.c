/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx key: makes shared key files and names the keys in one. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <tcpx/query.h>

#include "cli_output.h"
#include "commands.h"
#include "sys/crypto.h"

#define KEY_BYTES 32

struct key_options {
	int append;
};

static const struct cli_option options[] = {
	{"append", NULL, CLI_RULE_FLAG, offsetof(struct key_options, append), NULL, 0,
	 "new: add a second key to FILE (rotation)"},
};

static int make(const char *path, int append)
{
	tcpx_status status = tcpx_key_create(path, append);

	if (status != TCPX_OK)
		return cli_fail(status, "key new %s", path);
	fprintf(stderr, "%s: %s; copy it to the other hosts, mode 0600\n", path,
		append ? "key added" : "key made");
	return CLI_OK;
}

/* 64 hex digits to 32 bytes. 0; -1 when the line is no key. */
static int parse_key(const char *line, uint8_t key[KEY_BYTES])
{
	if (strspn(line, "0123456789abcdefABCDEF") != 2 * KEY_BYTES)
		return -1;
	for (unsigned i = 0; i < KEY_BYTES; i++)
		if (sscanf(line + 2 * i, "%2hhx", &key[i]) != 1)
			return -1;
	return 0;
}

/* The id that hellos carry: the first 8 bytes of HMAC(key, "tcpx key id"). */
static int show_ids(const char *path)
{
	const struct sys_span span = {"tcpx key id", 11};
	FILE *f = fopen(path, "re");
	unsigned count = 0;
	char line[256];
	int err;

	if (!f) {
		cli_error("key show-id %s: %s", path, strerror(errno));
		return CLI_FAILED;
	}
	while (fgets(line, sizeof(line), f)) {
		uint8_t key[KEY_BYTES], id[32];
		tcpx_status status;

		if (parse_key(line, key))
			continue;
		status = sys_hmac_sha256(key, &span, 1, id);
		if (status != TCPX_OK) {
			fclose(f);
			return cli_fail(status, "key show-id");
		}
		for (unsigned i = 0; i < 8; i++)
			printf("%02x", id[i]);
		putchar('\n');
		count++;
	}
	err = ferror(f) ? errno : 0;
	fclose(f);
	if (err) {
		cli_error("key show-id %s: %s", path, strerror(err));
		return CLI_FAILED;
	}
	if (count)
		return CLI_OK;
	cli_error("key show-id %s: no key in it; make one with 'tcpx key new FILE'", path);
	return CLI_FAILED;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
	struct key_options o = {0};
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc != CLI_GO)
		return rc;
	if (!strcmp(argv[first], "new"))
		return make(argv[first + 1], o.append);
	if (!strcmp(argv[first], "show-id") && o.append)
		return cli_usage("--append is for 'tcpx key new'");
	if (!strcmp(argv[first], "show-id"))
		return show_ids(argv[first + 1]);
	return cli_usage("unknown action '%s'; usage: tcpx key new|show-id FILE", argv[first]);
}

const struct cli_command command_key = {
	.name = "key",
	.args = "new|show-id FILE [options]",
	.summary = "Makes shared key files, names the keys in one",
	COMMAND_OPTIONS(options),
	.min_args = 2,
	.max_args = 2,
	.run = run,
};
