/* SPDX-License-Identifier: Apache-2.0 */
/* Golden bytes: tests/golden/NAME.hex holds hex pairs; '#' begins a comment. */
#ifndef SUPPORT_GOLDEN_H
#define SUPPORT_GOLDEN_H

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Bytes read into out, at most cap; 0 when the file is missing or malformed. */
static inline size_t golden_read(const char *name, uint8_t *out, size_t cap)
{
	char path[512], pair[3] = {0};
	size_t len = 0;
	FILE *file;
	int c;

	snprintf(path, sizeof(path), "%s/%s.hex", GOLDEN_DIR, name);
	file = fopen(path, "r");
	if (!file)
		return 0;
	while ((c = fgetc(file)) != EOF) {
		if (c == '#')
			while (c != '\n' && c != EOF)
				c = fgetc(file);
		if (c == EOF || isspace(c))
			continue;
		pair[0] = (char)c;
		pair[1] = (char)fgetc(file);
		if (!isxdigit((unsigned char)pair[0]) || !isxdigit((unsigned char)pair[1]) ||
		    len == cap) {
			len = 0;
			break;
		}
		out[len++] = (uint8_t)strtoul(pair, NULL, 16);
	}
	fclose(file);
	return len;
}

#endif
