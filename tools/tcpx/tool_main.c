/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx: one binary, a table of subcommands. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli_output.h"
#include "commands.h"

static void help(void)
{
	const struct cli_command *command;

	printf("Usage: tcpx COMMAND [options]\n"
	       "Moves memory between processes over TCP, and measures how fast.\n\nCommands:\n");
	for (unsigned i = 0; (command = command_at(i)); i++)
		printf("  %-11s %s\n", command->name, command->summary);
	printf("\nOn this machine, two processes:\n"
	       "  tcpx perf --loopback\n"
	       "Between two hosts, with a key file that both have:\n"
	       "  tcpx key new FILE                  once; copy it to the other host\n"
	       "  tcpx serve --key FILE              on one host, then on the other:\n"
	       "  tcpx perf HOST --key FILE\n\n"
	       "'tcpx help COMMAND' or 'tcpx COMMAND --help' lists the options of a command,\n"
	       "'man tcpx-COMMAND' explains them.\n"
	       "Exit: 0 ok, 1 failed, 2 usage, 3 a check failed, 4 wrong data, 124 timed out.\n");
}

static int tool_run(const struct cli_command *command, int argc, char **argv)
{
	static char name[32];

	snprintf(name, sizeof(name), "tcpx %s", command->name);
	cli_output_init(name);
	return cli_finish(command->run(command, argc, argv));
}

/* Opens missing descriptors 0 to 2, so that files opened later do not take their numbers.
 * Reading or writing them still fails. */
static void open_missing(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			_exit(CLI_FAILED);
}

static int unknown(const char *word)
{
	const char *nearest = command_nearest(word + strspn(word, "-"));

	if (nearest)
		return cli_usage("unknown command '%s'; did you mean '%s'?", word, nearest);
	if (!strcmp(word, "-s") || !strcmp(word, "--server"))
		return cli_usage("unknown command '%s'; the server is 'tcpx serve'", word);
	if (!strcmp(word, "-c") || !strcmp(word, "--client"))
		return cli_usage("unknown command '%s'; the client is 'tcpx perf HOST'", word);
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
		command = argc > 2 ? command_named(argv[2]) : NULL;
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
	command = command_named(word);
	return command ? tool_run(command, argc - 1, argv + 1) : unknown(word);
}
