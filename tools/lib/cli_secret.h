/* SPDX-License-Identifier: Apache-2.0 */
/* Detection of secrets, which are never written out. */
#ifndef TOOLS_CLI_SECRET_H
#define TOOLS_CLI_SECRET_H

#include <stddef.h>

#define CLI_KEY_DIGITS 64 /* this many consecutive hex digits may be a key */

/* Whether the name of a variable indicates a secret value. */
int cli_is_secret(const char *name, size_t len);

/* Number of hex digits at the start of a text of len bytes. */
size_t cli_hex_digits(const char *text, size_t len);

/* Whether the text may contain a key. */
int cli_has_key(const char *text);

#endif
