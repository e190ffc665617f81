/* SPDX-License-Identifier: Apache-2.0 */
/* Subcommands and their option tables: one table gives parsing, help and defaults. */
#ifndef TOOLS_CLI_OPTIONS_H
#define TOOLS_CLI_OPTIONS_H

#include "cli_values.h"

#define CLI_ENV(id) (CONFIG_##id + 1u) /* base/config.h */

struct cli_option {
	const char *name; /* without the dashes */
	const char *arg;  /* name of the value in the help; NULL: a flag */
	struct cli_rule rule;
	size_t offset;	      /* offset of the value in the subcommand's struct */
	const char *fallback; /* the default, parsed like user input; NULL: stays zero */
	unsigned env; /* CLI_ENV() of the library option that overrides the default if set; or 0 */
	const char *help; /* one line */
	/* Set by name in the rows that have them. */
	char letter;	     /* the short form, as in -p */
	const char *earlier; /* a former name, accepted and in no help */
	const char *implied; /* the value if none is given: the help shows [ARG] */
	const char *group;   /* heading in the help of this row and those that follow */
};

/* Rules without bounds. */
#define CLI_RULE_FLAG                                                                              \
	{                                                                                          \
		CLI_FLAG                                                                           \
	}
#define CLI_RULE_TEXT                                                                              \
	{                                                                                          \
		CLI_TEXT                                                                           \
	}

struct cli_command {
	const char *name;
	const char *args;    /* the usage line after the name */
	const char *summary; /* one line */
	const struct cli_option *options;
	unsigned noptions;
	unsigned min_args, max_args; /* positional ones */
	int (*run)(const struct cli_command *command, int argc, char **argv);
	/* Returns what to do in place of an unknown option, or NULL if nothing is known about it.
	 * `letter` is that of a short option, or 0 for a long one; `name` is the long one without
	 * dashes, or "". May be NULL. */
	const char *(*advise)(int letter, const char *name);
};

/* Result of cli_parse() if there is work to do; else it is an exit code. */
#define CLI_GO (-1)

/*
 * Parses argv[1..] into the struct at out (zeroed by the caller): defaults, then the environment,
 * then the options. Positional arguments are argv[*out_first .. argc - 1]. --help prints the help
 * and returns 0; a wrong option is named on stderr and returns 2.
 */
int cli_parse(const struct cli_command *command, int argc, char **argv, void *out, int *out_first);

/* 1 if the option was on the command line that was parsed last. */
int cli_given(const struct cli_command *command, const char *name);

/* Names unknown TCPX_* variables on stderr; cli_unknown: one of them, 0 past the end. */
void cli_say_unknown(void);
int cli_unknown(unsigned index, char *buf, size_t cap);

/* Usage on stdout; one line per option, under the headings of the groups. */
void cli_help(const struct cli_command *command);

/* The word of the list nearest to text. NULL if none is near: of a short word fewer letters may be
 * wrong than of a long one. */
const char *cli_nearest(const char *text, const char *(*word)(const void *arg, unsigned index),
			const void *arg, unsigned count);

#endif
