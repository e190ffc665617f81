/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of what a machine looks like before, during and after a command. */
#ifndef TOOLS_DIAG_COLLECT_H
#define TOOLS_DIAG_COLLECT_H

struct diag_options {
	const char *out, *name; /* NULL: a folder of the user's state, the command's name */
	int mask;
	char *const *argv; /* of the command; *argv NULL: none */
};

/* The exit code of the command; without one, ours. */
int diag_collect(const struct diag_options *options);

/* What differs between two such folders: environments, sysctls, versions. An exit code. */
int diag_compare(const char *a, const char *b);

#endif
