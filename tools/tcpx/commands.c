/* SPDX-License-Identifier: Apache-2.0 */
/* The table of subcommands. */
#include "commands.h"

#include <string.h>

static const struct cli_command *const commands[] = {
	&command_serve,	   &command_perf,   &command_node,    &command_mesh,	   &command_report,
	&command_topo,	   &command_doctor, &command_diag,    &command_trace,	   &command_info,
	&command_nixl_env, &command_key,    &command_version, &command_completion,
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

const struct cli_command *command_at(unsigned index)
{
	return index < COMMANDS ? commands[index] : NULL;
}

const struct cli_command *command_named(const char *name)
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

const char *command_nearest(const char *word)
{
	return cli_nearest(word, command_word, NULL, COMMANDS);
}
