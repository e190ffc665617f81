/* SPDX-License-Identifier: Apache-2.0 */
/* Records the state of a machine before, during and after a command in a folder. */
#ifndef TOOLS_DIAG_COLLECT_H
#define TOOLS_DIAG_COLLECT_H

struct diag_options {
	const char *out, *name; /* NULL: a folder of the user's state, the command's name */
	int mask;
	char *const *argv; /* of the command; *argv NULL: none */
};

/* Returns the exit code of the command; without a command, its own. */
int diag_collect(const struct diag_options *options);

/* Prints the differences between two such folders: environments, sysctls, versions. Returns an
 * exit code. */
int diag_compare(const char *a, const char *b);

#endif
