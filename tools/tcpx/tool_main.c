/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx: one binary, a table of subcommands. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli_output.h"
#include "commands.h"

static const struct cli_command *const commands[] = {
	&command_serve,	   &command_perf,   &command_node,    &command_mesh,  &command_report,
	&command_topo,	   &command_doctor, &command_diag,    &command_trace, &command_info,
	&command_nixl_env, &command_key,    &command_version,
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void help(void)
{
	printf("Usage: tcpx COMMAND [options]\n"
	       "Moves memory between processes over TCP, and measures how fast.\n\nCommands:\n");
	for (unsigned i = 0; i < COMMANDS; i++)
		printf("  %-8s %s\n", commands[i]->name, commands[i]->summary);
	printf("\nTry:  tcpx perf --loopback          this machine, two processes\n"
	       "      tcpx serve                    on one host, then on the other\n"
	       "      tcpx perf HOST                (beyond loopback: --key FILE on both)\n"
	       "Each command has --help on one screen and a man page, tcpx-COMMAND(1).\n"
	       "Exit: 0 ok, 1 failed, 2 usage, 3 a check failed, 4 wrong data, 124 timed out.\n");
}

static const struct cli_command *find(const char *name)
{
	for (unsigned i = 0; i < COMMANDS; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static const char *command_word(const void *arg, unsigned index)
{
	(void)arg;
	return commands[index]->name;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
	static char name[32];

	snprintf(name, sizeof(name), "tcpx %s", command->name);
	cli_output_init(name);
	return cli_finish(command->run(command, argc, argv));
}

/* Descriptors 0 to 2 that are missing: what is opened later must not take their places. Reading or
 * writing them fails as if they were still closed. */
static void open_missing(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			_exit(CLI_FAILED);
}

static int unknown(const char *word)
{
	const char *nearest = cli_nearest(word + strspn(word, "-"), command_word, NULL, COMMANDS);

	if (nearest)
		return cli_usage("unknown command '%s'; did you mean '%s'?", word, nearest);
	return cli_usage("unknown command '%s'; see 'tcpx --help'", word);
}

int main(int argc, char **argv)
{
	const struct cli_command *command;
	const char *word = argc > 1 ? argv[1] : "";

	open_missing();
	cli_output_init("tcpx");
	if (!strcmp(word, "--version") || !strcmp(word, "-V"))
		word = "version";
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
		command = argc > 2 ? find(argv[2]) : NULL;
		if (argc > 2 && !command)
			return unknown(argv[2]);
		if (command)
			cli_help(command);
		else
			help();
		return cli_finish(CLI_OK);
	}
	if (!*word)
		return cli_usage("no command; see 'tcpx --help'");
	command = find(word);
	return command ? run(command, argc - 1, argv + 1) : unknown(word);
}
