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

/* How many letters of a are missing, wrong, too many or swapped with the next one, compared with b;
 * of the first 31. */
static unsigned word_distance(const char *a, const char *b)
{
	unsigned rows[3][32], la = (unsigned)strnlen(a, 31), lb = (unsigned)strnlen(b, 31);

	for (unsigned i = 0; i <= la; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3];

		row[0] = i;
		for (unsigned j = 1; j <= lb; j++) {
			if (!i) {
				row[j] = j;
				continue;
			}
			row[j] = min3(above[j] + 1, row[j - 1] + 1,
				      above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = min3(row[j], row[j], rows[(i + 1) % 3][j - 2] + 1);
		}
	}
	return rows[la % 3][lb];
}

const char *cli_nearest(const char *text, const char *(*word)(const void *arg, unsigned index),
			const void *arg, unsigned count)
{
	const char *best = NULL;
	size_t len = strlen(text);
	unsigned best_distance = len < 2 ? 1 : len < 6 ? 2 : len < 9 ? 3 : 4; /* one more */

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

static void help_option(const struct cli_option *o)
{
	const char *open = o->implied ? "[" : "", *close = o->implied ? "]" : "";
	char letter[] = "-x, ";
	int used;

	letter[1] = o->letter;
	used = printf("  %s--%s%s%s%s%s", o->letter ? letter : "    ", o->name, o->arg ? " " : "",
		      open, o->arg ? o->arg : "", close);
	printf("%*s%s", used < HELP_COLUMN ? HELP_COLUMN - used : 1, "", o->help);
	if (o->fallback)
		printf(" [%s]", o->fallback);
	putchar('\n');
}

void cli_help(const struct cli_command *command)
{
	printf("Usage: tcpx %s%s%s\n%s.\n", command->name, *command->args ? " " : "", command->args,
	       command->summary);
	if (!command->noptions || !command->options[0].group)
		printf("Options:\n");
	for (unsigned i = 0; i < command->noptions; i++) {
		if (command->options[i].group)
			printf("%s:\n", command->options[i].group);
		help_option(&command->options[i]);
	}
	printf("  -h, --help              this text; more: man tcpx-%s\n", command->name);
}

static const char *option_word(const void *arg, unsigned index)
{
	const struct cli_command *command = arg;

	return command->options[index].name;
}

/* letter: of a short option, else 0. */
static int unknown_option(const struct cli_command *command, const char *text, int letter)
{
	char name[32];
	const char *nearest, *advice;

	if (letter)
		snprintf(name, sizeof(name), "-%c", letter);
	else
		snprintf(name, sizeof(name), "%s", text);
	name[strcspn(name, "=")] = 0;
	advice = command->advise ? command->advise(letter, letter ? "" : name + strspn(name, "-"))
				 : NULL;
	if (advice)
		return cli_usage("unknown option '%s'; %s", name, advice);
	if (letter)
		return cli_usage("unknown option '%s'; see 'tcpx %s --help'", name, command->name);
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
	snprintf(buf, cap, "unknown variable %s is ignored%s%s%s", name,
		 *nearest ? "; did you mean " : "", nearest, *nearest ? "?" : "");
	return 1;
}

void cli_say_unknown(void)
{
	char text[256];

	for (unsigned i = 0; cli_unknown(i, text, sizeof(text)); i++)
		cli_error("%s", text);
}

/* What getopt_long() takes: both forms of each option, and former names. */
struct getopt_tables {
	struct option longs[2 * OPTIONS_MAX + 2];
	char shorts[3 * OPTIONS_MAX + 4];
};

static void fill_tables(const struct cli_command *command, struct getopt_tables *out)
{
	struct option *longs = out->longs;
	char *shorts = stpcpy(out->shorts, ":h"); /* a missing value is told from a wrong option */

	for (unsigned i = 0; i < command->noptions; i++) {
		const struct cli_option *o = &command->options[i];
		int has_arg = !o->arg	   ? no_argument
			      : o->implied ? optional_argument
					   : required_argument;

		*longs++ = (struct option){o->name, has_arg, NULL, OPT_FIRST + (int)i};
		if (o->earlier)
			*longs++ = (struct option){o->earlier, has_arg, NULL, OPT_FIRST + (int)i};
		if (!o->letter)
			continue;
		*shorts++ = o->letter;
		shorts = stpcpy(shorts, !o->arg ? "" : o->implied ? "::" : ":");
	}
	*longs++ = (struct option){"help", no_argument, NULL, OPT_HELP};
	*longs = (struct option){0};
}

/* The index of the option that getopt_long() returned. */
static unsigned option_index(const struct cli_command *command, int c)
{
	unsigned i = 0;

	if (c >= OPT_FIRST)
		return (unsigned)(c - OPT_FIRST);
	while (command->options[i].letter != c)
		i++;
	return i;
}

/* The value of an option that may go without: after a long option a word that is no option is one,
 * as it was before the value became optional. */
static const char *optional_value(const struct cli_option *o, int c, int argc, char **argv)
{
	if (optarg)
		return optarg;
	if (c >= OPT_FIRST && optind < argc && (argv[optind][0] != '-' || !argv[optind][1]))
		return argv[optind++];
	return o->implied;
}

static int parse_options(const struct cli_command *command, int argc, char **argv, void *out)
{
	struct getopt_tables tables;
	int rc = CLI_GO, c;

	fill_tables(command, &tables);
	given = 0;
	opterr = 0;
	optind = 1;
	while (rc == CLI_GO &&
	       (c = getopt_long(argc, argv, tables.shorts, tables.longs, NULL)) != -1) {
		const struct cli_option *o;

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
			return unknown_option(command, argv[optind - 1], optopt);
		o = &command->options[option_index(command, c)];
		rc = set_option(command, (unsigned)(o - command->options),
				o->implied ? optional_value(o, c, argc, argv) : optarg, out);
	}
	return rc;
}

int cli_parse(const struct cli_command *command, int argc, char **argv, void *out, int *out_first)
{
	int rc = CLI_GO;
	unsigned args;

	for (unsigned i = 0; rc == CLI_GO && i < command->noptions; i++)
		rc = set_default(&command->options[i], out);
	if (rc == CLI_GO)
		rc = parse_options(command, argc, argv, out);
	if (rc != CLI_GO)
		return rc;
	*out_first = optind;
	args = (unsigned)(argc - optind);
	if (args > command->max_args)
		return cli_usage("unexpected argument '%s'; see 'tcpx %s --help'",
				 argv[optind + (int)command->max_args], command->name);
	if (args < command->min_args)
		return cli_usage("usage: tcpx %s %s", command->name, command->args);
	return CLI_GO;
}
