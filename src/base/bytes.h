/* SPDX-License-Identifier: Apache-2.0 */
/* Byte counts as text. Units are powers of 1024. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Parses "65536", "64K", "64KB", "64KiB", "64 KiB", "1.5M"; K M G T P E in upper or lower case.
 * Returns 0, or -1 if the text is malformed or too large; then *out_bytes is unchanged. */
int bytes_parse(const char *text, uint64_t *out_bytes);

/* Writes "64 KiB", "1.5 MiB" or "1000 B", with at most two decimals. Returns buf. */
char *bytes_format(uint64_t bytes, char *buf, size_t cap);

/* Writes "64K", "100M" or "1000", with the largest unit that divides the number, so that
 * bytes_parse gives the same number. Returns buf. */
char *bytes_compact(uint64_t bytes, char *buf, size_t cap);

#define BYTES_TEXT_MAX 32 /* room for any of these texts */

#endif
