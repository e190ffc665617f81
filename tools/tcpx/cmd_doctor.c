/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx doctor: checks this machine and the other end for misconfiguration. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_json.h"
#include "cli_output.h"
#include "commands.h"
#include "doctor_print.h"
#include "doctor_probe.h"
#include "doctor_rules.h"

struct doctor_options {
	int fix, all, insecure;
	uint64_t gpu;
	const char *facts, *save, *json, *only, *nic, *plugin, *key, *peer;
};

#define AT(field) offsetof(struct doctor_options, field)

static const struct cli_option options[] = {
	{"peer", "HOST[:PORT]", CLI_RULE_TEXT, AT(peer), NULL, 0,
	 "check the 'tcpx serve' there as well", .group = "Checks"},
	{"gpu",
	 "N",
	 {CLI_COUNT, 0, 1023},
	 AT(gpu),
	 NULL,
	 0,
	 "the GPU to check, as this process counts"},
	{"nic", "NAME[,...]", CLI_RULE_TEXT, AT(nic), NULL, 0,
	 "the NICs to listen on (default: TCPX_NIC)"},
	{"plugin", "FILE", CLI_RULE_TEXT, AT(plugin), NULL, 0,
	 "ncclNet plugin (default: where TCPX's is)"},
	{"only", "ID[,...]", CLI_RULE_TEXT, AT(only), NULL, 0,
	 "only these checks, by id or name: D01,routes"},
	{"all", NULL, CLI_RULE_FLAG, AT(all), NULL, 0, "show the skipped checks and why"},
	{"key", "FILE", CLI_RULE_TEXT, AT(key), NULL, 0, "shared key file (default: TCPX_KEY_FILE)",
	 .earlier = "key-file", .group = "Trust"},
	{"insecure", NULL, CLI_RULE_FLAG, AT(insecure), NULL, 0,
	 "reach --peer beyond loopback without a key"},
	{"facts", "FILE", CLI_RULE_TEXT, AT(facts), NULL, 0,
	 "judge recorded facts, not this machine", .group = "Facts and output"},
	{"save-facts", "FILE", CLI_RULE_TEXT, AT(save), NULL, 0, "record the facts"},
	{"fix", NULL, CLI_RULE_FLAG, AT(fix), NULL, 0, "print only the fixes; nothing is run"},
	{"json", "FILE", CLI_RULE_TEXT, AT(json), NULL, 0, "write the checks as JSON",
	 .letter = 'J', .implied = "-"},
};

/* Parses --only. Returns CLI_GO or an exit code. */
static int choose(const char *list, uint64_t *out_chosen)
{
	uint64_t chosen = 0;
	size_t len;

	*out_chosen = UINT64_MAX;
	for (; list && *list; list += len + (list[len] == ',')) {
		const struct doctor_rule *rule;

		len = strcspn(list, ",");
		rule = doctor_rule_named(list, len);
		if (!rule)
			return cli_usage(
				"--only: '%.*s' is not a check; they are D01 to D22 or the "
				"names that 'tcpx doctor --all' prints",
				(int)len, list);
		chosen |= 1ull << (rule - doctor_rule(0));
		*out_chosen = chosen;
	}
	return CLI_GO;
}

static int check_options(const struct cli_command *command, const struct doctor_options *o)
{
	static const char *const live[] = {"peer", "plugin", "key", "insecure"};

	for (unsigned i = 0; o->facts && i < sizeof(live) / sizeof(live[0]); i++)
		if (cli_given(command, live[i]))
			return cli_usage("--%s is for a live run, not for --facts", live[i]);
	if (o->insecure && !o->peer)
		return cli_usage("--insecure is for --peer");
	if (o->fix && o->json)
		return cli_usage("--fix and --json exclude each other");
	return CLI_GO;
}

/* Reads the whole file. NULL after a line on stderr. */
static char *read_all(const char *path, size_t *out_len)
{
	FILE *f = fopen(path, "re");
	char *text = f ? malloc(DOCTOR_TEXT_MAX + 1) : NULL;
	int err;

	if (text)
		*out_len = fread(text, 1, DOCTOR_TEXT_MAX + 1, f);
	err = errno;
	if (!text || ferror(f)) {
		cli_error("--facts %s: %s", path, strerror(err));
		free(text);
		text = NULL;
	}
	if (f)
		fclose(f);
	return text;
}

static int doctor_load(const char *path, struct doctor_facts *facts)
{
	char why[300], *text;
	size_t len;
	int rc;

	text = read_all(path, &len);
	if (!text)
		return CLI_FAILED;
	rc = doctor_facts_parse(facts, text, len, why, sizeof(why));
	free(text);
	if (!rc)
		return CLI_OK;
	cli_error("--facts %s: %s", path, why);
	return CLI_FAILED;
}

static int save(const char *path, const struct doctor_facts *facts)
{
	FILE *out = fopen(path, "we");
	int bad, err;

	if (out)
		doctor_facts_write(facts, out);
	bad = !out || fflush(out) || ferror(out);
	err = errno;
	if (out)
		bad |= fclose(out);
	if (bad)
		cli_error("--save-facts %s: %s", path, strerror(err));
	return bad ? CLI_FAILED : CLI_OK;
}

static int find_out(const struct cli_command *command, const struct doctor_options *o,
		    uint64_t chosen, struct doctor_facts *facts)
{
	struct doctor_probe_opts probe = {
		.chosen = chosen,
		.nic = o->nic,
		.plugin = o->plugin,
		.key_file = o->key,
		.peer = o->peer,
		.insecure = o->insecure,
		.gpu = cli_given(command, "gpu") ? (int)o->gpu : -1,
	};
	int rc = o->facts ? doctor_load(o->facts, facts) : CLI_OK;

	if (rc)
		return rc;
	if (!o->facts)
		doctor_probe(facts, &probe);
	if (o->facts && probe.gpu >= 0)
		doctor_put_count(facts, o->gpu, "want.gpu");
	if (o->facts && o->nic)
		doctor_put_text(facts, o->nic, "want.nic");
	if (facts->lost) {
		cli_error("out of memory for facts");
		return CLI_FAILED;
	}
	return o->save ? save(o->save, facts) : CLI_OK;
}

static int doctor_conclude(const struct doctor_options *o, uint64_t chosen,
			   const struct doctor_facts *facts)
{
	static struct doctor_report report;
	int rc = CLI_OK;

	doctor_judge_all(facts, chosen, &report);
	if (o->fix)
		doctor_print_fixes(&report);
	else if (!o->json || strcmp(o->json, "-"))
		doctor_print_text(&report, o->all || o->only);
	if (o->json)
		rc = doctor_print_json(&report, facts, o->json);
	return rc == CLI_OK && report.verdicts[DOCTOR_FAIL] ? CLI_FOUND : rc;
}

static int doctor_command(const struct cli_command *command, int argc, char **argv)
{
	struct doctor_options o = {0};
	struct doctor_facts facts = {0};
	uint64_t chosen;
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc == CLI_GO)
		rc = choose(o.only, &chosen);
	if (rc == CLI_GO)
		rc = check_options(command, &o);
	if (rc == CLI_GO && o.json)
		rc = cli_json_check() ? CLI_USAGE : CLI_GO;
	if (rc != CLI_GO)
		return rc;
	rc = find_out(command, &o, chosen, &facts);
	if (rc == CLI_OK)
		rc = doctor_conclude(&o, chosen, &facts);
	doctor_facts_free(&facts);
	return rc;
}

const struct cli_command command_doctor = {
	.name = "doctor",
	.args = "[options]",
	.summary = "Checks for misconfiguration, prints cause and fix",
	COMMAND_OPTIONS(options),
	.run = doctor_command,
};
