/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets by name and by form. */
#include "cli_secret.h"

#include <ctype.h>
#include <string.h>

int cli_is_secret(const char *name, size_t len)
{
	static const char *const parts[] = {"SECRET", "TOKEN", "PASSW",	 "CREDENTIAL",
					    "_KEY",   "JWT",   "COOKIE", "PRIVATE"};
	char upper[128];
	size_t used = 0;

	for (; used < len && used < sizeof(upper) - 1; used++)
		upper[used] = (char)toupper((unsigned char)name[used]);
	upper[used] = '\0';
	if (used > 9 && !strcmp(upper + used - 9, "_KEY_FILE"))
		return 0; /* a path, not a secret */
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(upper, parts[i]))
			return 1;
	return 0;
}

size_t cli_hex_digits(const char *text, size_t len)
{
	size_t digits = 0;

	while (digits < len && isxdigit((unsigned char)text[digits]))
		digits++;
	return digits;
}

int cli_has_key(const char *text)
{
	size_t len = strlen(text), digits;

	for (size_t at = 0; at < len; at += digits + 1) {
		digits = cli_hex_digits(text + at, len - at);
		if (digits >= CLI_KEY_DIGITS)
			return 1;
	}
	return 0;
}
