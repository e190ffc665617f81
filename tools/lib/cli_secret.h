/* SPDX-License-Identifier: Apache-2.0 */
/* What is never written down, not even on demand. */
#ifndef TOOLS_CLI_SECRET_H
#define TOOLS_CLI_SECRET_H

#include <stddef.h>

#define CLI_KEY_DIGITS 64 /* a run of so many hex digits may be a key */

/* Whether a variable's name says that its value is a secret. */
int cli_is_secret(const char *name, size_t len);

/* Hex digits at the start of a text of len bytes. */
size_t cli_hex_digits(const char *text, size_t len);

/* Whether there may be a key in it. */
int cli_has_key(const char *text);

#endif
