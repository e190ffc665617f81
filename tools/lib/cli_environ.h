/* SPDX-License-Identifier: Apache-2.0 */
/* The environment as diagnostics show it: variables that concern a run, secrets hidden. */
#ifndef TOOLS_CLI_ENVIRON_H
#define TOOLS_CLI_ENVIRON_H

#include <stdio.h>

/* "NAME=value" lines, sorted. */
void cli_environ_write(FILE *out);

/* Appends them to the file that TCPX_RECIPE_FILE names, from which 'tcpx diag collect' learns what
 * this process has set for its plugin. Does nothing without the variable. */
void cli_environ_record(void);

#endif
