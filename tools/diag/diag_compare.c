/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two folders of diagnostics. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_output.h"
#include "diag_collect.h"
#include "diag_summary.h"

#define FILE_MAX_BYTES (4u << 20)
#define LINES_MOST 1000

static const struct {
	const char *file, *separator;
} compared[] = {
	{"environment.txt", "="},
	{"versions.txt", ": "},
	{"sysctls.before.txt", ": "},
	{"topology.txt", ": "},
};

/* NULL after a line on stderr. */
static char *read_text(const char *folder, const char *name)
{
	char path[4200], *text;
	size_t len;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "re");
	if (!f) {
		cli_error("%s: %s; is it a folder of 'tcpx diag collect'?", path, strerror(errno));
		return NULL;
	}
	text = malloc(FILE_MAX_BYTES + 1);
	len = text ? fread(text, 1, FILE_MAX_BYTES, f) : 0;
	if (text)
		text[len] = '\0';
	else
		cli_error("%s: out of memory", path);
	fclose(f);
	return text;
}

static int compare_file(const char *folders[2], unsigned i)
{
	char *a = read_text(folders[0], compared[i].file);
	char *b = a ? read_text(folders[1], compared[i].file) : NULL;
	const char *names[2] = {"in the first", "in the second"};
	int rc = b ? 0 : -1;

	if (b) {
		printf("%s:\n", compared[i].file);
		if (!diag_differences(a, b, compared[i].separator, names, LINES_MOST, stdout))
			printf("  no difference\n");
	}
	free(a);
	free(b);
	return rc;
}

int diag_compare(const char *a, const char *b)
{
	const char *folders[2] = {a, b};

	for (unsigned i = 0; i < sizeof(compared) / sizeof(compared[0]); i++)
		if (compare_file(folders, i))
			return CLI_FAILED;
	return CLI_OK;
}
