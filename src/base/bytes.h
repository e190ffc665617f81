/* SPDX-License-Identifier: Apache-2.0 */
/* Byte counts as text. Units are powers of 1024. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Parses a number of bytes, such as "65536", "64K", "64KB", "64KiB", "64 KiB" or "1.5M". The units
 * are K, M, G, T, P and E, in upper or lower case. Returns 0. Returns -1, and leaves *out_bytes
 * unchanged, if the text is malformed or the number is too large. */
int bytes_parse(const char *text, uint64_t *out_bytes);

/* Writes a number of bytes with at most two decimals: "64 KiB", "1.5 MiB", "1000 B". Returns
 * buf. */
char *bytes_format(uint64_t bytes, char *buf, size_t cap);

/* Writes a number of bytes with the largest unit that divides it: "64K", "100M", "1000".
 * bytes_parse reads exactly the same number from the text. Returns buf. */
char *bytes_compact(uint64_t bytes, char *buf, size_t cap);

#define BYTES_TEXT_MAX 32 /* enough for the text of any number of bytes */

#endif
