/* SPDX-License-Identifier: Apache-2.0 */
/* Formatting of messages into a buffer of fixed size. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* Like snprintf, but a text that does not fit is cut, after a whole word if possible, and ends with
 * "..." if `size` > 4. No argument may point into `out`. Returns the length of the text in `out`.
 * Keeps errno. */
size_t text_format(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
size_t text_vformat(char *out, size_t size, const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));

#endif
