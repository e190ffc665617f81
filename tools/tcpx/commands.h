/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands. */
#ifndef TOOLS_TCPX_COMMANDS_H
#define TOOLS_TCPX_COMMANDS_H

#include "cli_options.h"

extern const struct cli_command command_serve;
extern const struct cli_command command_perf;
extern const struct cli_command command_info;
extern const struct cli_command command_trace;
extern const struct cli_command command_node;
extern const struct cli_command command_mesh;
extern const struct cli_command command_report;
extern const struct cli_command command_topo;
extern const struct cli_command command_doctor;
extern const struct cli_command command_diag;
extern const struct cli_command command_nixl_env;
extern const struct cli_command command_key;
extern const struct cli_command command_version;
extern const struct cli_command command_completion;

/* In the order of the overview; NULL past the end, or if there is none of that name. */
const struct cli_command *command_at(unsigned index);
const struct cli_command *command_named(const char *name);

/* The name nearest to a word, or NULL. */
const char *command_nearest(const char *word);

#define COMMAND_OPTIONS(table) .options = (table), .noptions = sizeof(table) / sizeof((table)[0])

#endif
