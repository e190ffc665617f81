/* SPDX-License-Identifier: Apache-2.0 */
/* Option tables: parsing by getopt_long, help, suggestions for misspelt words. */
#include "cli_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tcpx/query.h>

#include "base/config.h"
#include "cli_output.h"

#define OPTIONS_MAX 48
#define HELP_COLUMN 26
#define OPT_FIRST 256 /* larger than every short option */
#define OPT_HELP 1000

static uint64_t given; /* a bit per option that was given on the command line */
_Static_assert(OPTIONS_MAX <= 64, "a bit each");

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* Levenshtein distance of the first 31 characters. */
static unsigned word_distance(const char *a, const char *b)
{
	unsigned row[32], la = (unsigned)strnlen(a, 31), lb = (unsigned)strnlen(b, 31);

	for (unsigned j = 0; j <= lb; j++)
		row[j] = j;
	for (unsigned i = 1; i <= la; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= lb; j++) {
			unsigned above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[lb];
}

const char *cli_nearest(const char *text, const char *(*word)(const void *arg, unsigned index),
			const void *arg, unsigned count)
{
	const char *best = NULL;
	unsigned best_distance = 4;

	for (unsigned i = 0; i < count; i++) {
		const char *w = word(arg, i);
		unsigned d = word_distance(text, w);

		if (d < best_distance && d < strlen(w)) {
			best = w;
			best_distance = d;
		}
	}
	return best;
}

void cli_help(const struct cli_command *command)
{
	printf("Usage: tcpx %s%s%s\n%s.\n\nOptions:\n", command->name, *command->args ? " " : "",
	       command->args, command->summary);
	for (unsigned i = 0; i < command->noptions; i++) {
		const struct cli_option *o = &command->options[i];
		int used = printf("  --%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");

		printf("%*s%s", used < HELP_COLUMN ? HELP_COLUMN - used : 1, "", o->help);
		if (o->fallback)
			printf(" [%s]", o->fallback);
		putchar('\n');
	}
	printf("  --help                  this text; more: man tcpx-%s\n", command->name);
}

static const char *option_word(const void *arg, unsigned index)
{
	const struct cli_command *command = arg;

	return command->options[index].name;
}

static int unknown_option(const struct cli_command *command, const char *text)
{
	char name[32];
	const char *nearest;

	snprintf(name, sizeof(name), "%s", text);
	name[strcspn(name, "=")] = 0;
	nearest = cli_nearest(name + strspn(name, "-"), option_word, command, command->noptions);
	if (nearest)
		return cli_usage("unknown option '%s'; did you mean --%s?", name, nearest);
	return cli_usage("unknown option '%s'; see 'tcpx %s --help'", name, command->name);
}

static const char *get_environment(const char *name)
{
	return getenv(name);
}

/* Sets one default: from the environment if the library's option is set, else the fallback. */
static int set_default(const struct cli_option *o, void *out)
{
	char why[160], *field = (char *)out + o->offset;
	const struct config_row *row = o->env ? config_row(o->env - 1) : NULL;
	struct config_value env = {.source = CONFIG_DEFAULT};

	if (row)
		config_resolve(row, get_environment, &env);
	if (env.wrong)
		return cli_usage(
			"%.*s in the environment: invalid value '%s'; see 'tcpx info --env'",
			(int)strcspn(env.wrong, " "), env.wrong, env.wrong_text);
	if (row && !strcmp(row->default_text, "auto") && !env.u64)
		env.source = CONFIG_DEFAULT; /* "auto" leaves the choice to the tool */
	if (env.source != CONFIG_DEFAULT) {
		if (o->rule.type == CLI_FLAG)
			*(int *)field = env.u64 != 0;
		else if (cli_value_parse(&o->rule, env.text, field, why, sizeof(why)))
			return cli_usage("%s in the environment: %s", row->name, why);
	} else if (o->fallback && cli_value_parse(&o->rule, o->fallback, field, why, sizeof(why))) {
		return cli_usage("default of --%s: %s", o->name, why);
	}
	return CLI_GO;
}

static int set_option(const struct cli_command *command, unsigned index, const char *text,
		      void *out)
{
	const struct cli_option *o = &command->options[index];
	char why[160];

	if (cli_value_parse(&o->rule, text, (char *)out + o->offset, why, sizeof(why)))
		return cli_usage("--%s: %s", o->name, why);
	given |= 1ull << index;
	return CLI_GO;
}

int cli_given(const struct cli_command *command, const char *name)
{
	for (unsigned i = 0; i < command->noptions; i++)
		if (!strcmp(command->options[i].name, name))
			return given >> i & 1;
	return 0;
}

int cli_unknown(unsigned index, char *buf, size_t cap)
{
	const char *nearest;
	char name[96];

	if (tcpx_option_unknown(index, name, sizeof(name), &nearest) != TCPX_OK)
		return 0;
	snprintf(buf, cap, "unknown variable %s%s%s%s", name, *nearest ? "; did you mean " : "",
		 nearest, *nearest ? "?" : "");
	return 1;
}

void cli_say_unknown(void)
{
	char text[256];

	for (unsigned i = 0; cli_unknown(i, text, sizeof(text)); i++)
		cli_error("%s", text);
}

int cli_parse(const struct cli_command *command, int argc, char **argv, void *out, int *out_first)
{
	struct option longs[OPTIONS_MAX + 2] = {0};
	int rc, c;
	unsigned args;

	for (unsigned i = 0; i < command->noptions; i++) {
		rc = set_default(&command->options[i], out);
		if (rc != CLI_GO)
			return rc;
	}
	for (unsigned i = 0; i < command->noptions; i++)
		longs[i] =
			(struct option){command->options[i].name, command->options[i].arg != NULL,
					NULL, OPT_FIRST + (int)i};
	longs[command->noptions] = (struct option){"help", no_argument, NULL, OPT_HELP};
	given = 0;
	opterr = 0;
	optind = 1;
	while ((c = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
		if (c == OPT_HELP || c == 'h') {
			cli_help(command);
			return 0;
		}
		if (c == ':')
			return cli_usage("%s needs a value; see 'tcpx %s --help'", argv[optind - 1],
					 command->name);
		if (c == '?' && optopt >= OPT_FIRST)
			return cli_usage("'%s': the option takes no value", argv[optind - 1]);
		if (c == '?')
			return unknown_option(command, argv[optind - 1]);
		rc = set_option(command, (unsigned)(c - OPT_FIRST), optarg, out);
		if (rc != CLI_GO)
			return rc;
	}
	*out_first = optind;
	args = (unsigned)(argc - optind);
	if (args > command->max_args)
		return cli_usage("unexpected argument '%s'; see 'tcpx %s --help'",
				 argv[optind + (int)command->max_args], command->name);
	if (args < command->min_args)
		return cli_usage("usage: tcpx %s %s", command->name, command->args);
	return CLI_GO;
}
