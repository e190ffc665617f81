/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx completion: what shells need to complete commands, options and values, from the tables. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli_output.h"
#include "commands.h"

#define SHELLS "bash|zsh|fish"

static bool has_choices(const struct cli_option *o)
{
	return o->arg && o->rule.choices;
}

/* The values of an option with choices, with separator between them. */
static void print_choices(const struct cli_option *o, const char *separator)
{
	char word[64];

	for (uint64_t i = 0; *cli_choice_text(o->rule.choices, i, word, sizeof(word)); i++)
		printf("%s%s", i ? separator : "", word);
}

static void print_commands(void)
{
	const struct cli_command *command;

	for (unsigned i = 0; (command = command_at(i)); i++)
		printf("%s%s", i ? " " : "", command->name);
}

static void bash_values(const struct cli_command *command)
{
	for (unsigned i = 0; i < command->noptions; i++) {
		const struct cli_option *o = &command->options[i];

		if (!has_choices(o))
			continue;
		printf("\t%s:--%s) words='", command->name, o->name);
		print_choices(o, " ");
		printf("' ;;\n");
	}
}

static void bash_options(const struct cli_command *command)
{
	printf("\t%s) words='", command->name);
	for (unsigned i = 0; i < command->noptions; i++)
		printf("--%s ", command->options[i].name);
	printf("--help' ;;\n");
}

/* A value without a list of choices is completed as a file name: complete -o default. */
static void print_bash(void)
{
	const struct cli_command *command;

	printf("# bash completion of tcpx, made by 'tcpx completion bash'\n"
	       "_tcpx()\n{\n"
	       "\tlocal words= current=${COMP_WORDS[COMP_CWORD]}\n"
	       "\tlocal before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}\n\n"
	       "\tCOMPREPLY=()\n"
	       "\tif [ \"$before\" = = ]; then\n"
	       "\t\tbefore=${COMP_WORDS[COMP_CWORD - 2]}\n"
	       "\telif [ \"$current\" = = ]; then\n"
	       "\t\tbefore=${COMP_WORDS[COMP_CWORD - 1]} current=\n"
	       "\tfi\n"
	       "\tif [ \"$COMP_CWORD\" = 1 ]; then\n"
	       "\t\tCOMPREPLY=($(compgen -W '");
	print_commands();
	printf(" help --help --version' -- \"$current\"))\n"
	       "\t\treturn\n\tfi\n"
	       "\tcase $command:$before in\n"
	       "\thelp:help) words='");
	print_commands();
	printf("' ;;\n");
	for (unsigned i = 0; (command = command_at(i)); i++)
		bash_values(command);
	printf("\tesac\n"
	       "\tcase $current in\n"
	       "\t-*) case $command in\n");
	for (unsigned i = 0; (command = command_at(i)); i++)
		bash_options(command);
	printf("\tesac ;;\n"
	       "\tesac\n"
	       "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
	       "}\n"
	       "complete -o default -F _tcpx tcpx\n");
}

/* Inside '...' of zsh and fish; in zsh's descriptions [, ] and : have a meaning. */
static void print_quoted(const char *text, const char *escaped)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (strchr(escaped, *text))
			printf("\\%c", *text);
		else
			putchar(*text);
	}
}

static void zsh_option(const struct cli_option *o)
{
	const char *optional = o->implied ? ":" : "";

	printf("\t\t\t");
	if (o->letter)
		printf("'(-%c --%s)'{-%c,--%s%s}'[", o->letter, o->name, o->letter, o->name,
		       o->arg ? "=" : "");
	else
		printf("'--%s%s[", o->name, o->arg ? "=" : "");
	print_quoted(o->help, "[]:");
	printf("]");
	if (o->arg) {
		printf(":%s", optional);
		print_quoted(o->arg, "[]:");
		printf(":");
		if (has_choices(o)) {
			printf("(");
			print_choices(o, " ");
			printf(")");
		} else if (strstr(o->arg, "FILE") || strstr(o->arg, "DIR")) {
			printf("_files");
		}
	}
	printf("' \\\n");
}

static void print_zsh(void)
{
	const struct cli_command *command;

	printf("#compdef tcpx\n"
	       "# zsh completion of tcpx, made by 'tcpx completion zsh'\n"
	       "_tcpx()\n{\n"
	       "\tlocal -a commands\n"
	       "\tcommands=(\n");
	for (unsigned i = 0; (command = command_at(i)); i++) {
		printf("\t\t'%s:", command->name);
		print_quoted(command->summary, ":");
		printf("'\n");
	}
	printf("\t\t'help:Lists the options of a command'\n\t)\n"
	       "\tif ((CURRENT == 2)) || [[ $words[2] == help ]]; then\n"
	       "\t\t_describe command commands\n"
	       "\t\treturn\n\tfi\n"
	       "\tshift words\n\t((CURRENT--))\n"
	       "\tcase $words[1] in\n");
	for (unsigned i = 0; (command = command_at(i)); i++) {
		printf("\t%s)\n\t\t_arguments \\\n", command->name);
		for (unsigned k = 0; k < command->noptions; k++)
			zsh_option(&command->options[k]);
		printf("\t\t\t'--help[this text]' \\\n\t\t\t'*:file:_files' ;;\n");
	}
	printf("\tesac\n}\n"
	       "_tcpx \"$@\"\n");
}

static void fish_option(const struct cli_command *command, const struct cli_option *o)
{
	printf("complete -c tcpx -n '__fish_seen_subcommand_from %s' -l %s", command->name,
	       o->name);
	if (o->letter)
		printf(" -s %c", o->letter);
	if (has_choices(o)) {
		printf(" -x -a '");
		print_choices(o, " ");
		printf("'");
	} else if (o->arg && !o->implied) {
		printf(" -r");
	}
	printf(" -d '");
	for (const char *at = o->help; *at; at++)
		printf(*at == '\'' || *at == '\\' ? "\\%c" : "%c", *at);
	printf("'\n");
}

static void print_fish(void)
{
	const struct cli_command *command;

	printf("# fish completion of tcpx, made by 'tcpx completion fish'\n");
	for (unsigned i = 0; (command = command_at(i)); i++) {
		printf("complete -c tcpx -f -n __fish_use_subcommand -a %s -d '", command->name);
		for (const char *at = command->summary; *at; at++)
			printf(*at == '\'' || *at == '\\' ? "\\%c" : "%c", *at);
		printf("'\n");
	}
	for (unsigned i = 0; (command = command_at(i)); i++)
		for (unsigned k = 0; k < command->noptions; k++)
			fish_option(command, &command->options[k]);
}

static int completion_command(const struct cli_command *command, int argc, char **argv)
{
	static void (*const print[])(void) = {print_bash, print_zsh, print_fish};
	static const struct cli_rule shells = {.type = CLI_CHOICE, .choices = SHELLS};
	uint64_t shell;
	char why[160];
	int none, first, rc = cli_parse(command, argc, argv, &none, &first);

	if (rc != CLI_GO)
		return rc;
	if (cli_value_parse(&shells, argv[first], &shell, why, sizeof(why)))
		return cli_usage("%s", why);
	print[shell]();
	return CLI_OK;
}

const struct cli_command command_completion = {
	.name = "completion",
	.args = SHELLS,
	.summary = "Prints the completion script of a shell",
	.min_args = 1,
	.max_args = 1,
	.run = completion_command,
};
