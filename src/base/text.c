/* SPDX-License-Identifier: Apache-2.0 */
/* Formatting of messages into a buffer of fixed size. */
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char more[] = "...";

/* Returns how many bytes of a text to keep before "...", at most `room`. The cut is after a whole
 * word, unless less than half of `room` would then be used. */
static size_t whole_words(const char *text, size_t room)
{
	size_t end = room;

	while (end && text[end] != ' ')
		end--;
	if (end < room / 2)
		end = room;
	while (end && strchr(" ,;:(", text[end - 1]))
		end--;
	return end;
}

size_t text_vformat(char *out, size_t size, const char *format, va_list args)
{
	int saved = errno, len;
	size_t end;

	if (!size)
		return 0;
	len = vsnprintf(out, size, format, args);
	errno = saved;
	if (len < 0) {
		out[0] = '\0';
		return 0;
	}
	if ((size_t)len < size)
		return (size_t)len;
	if (size <= sizeof(more))
		return size - 1;
	end = whole_words(out, size - sizeof(more));
	memcpy(out + end, more, sizeof(more));
	return end + sizeof(more) - 1;
}

size_t text_format(char *out, size_t size, const char *format, ...)
{
	va_list args;
	size_t len;

	va_start(args, format);
	len = text_vformat(out, size, format, args);
	va_end(args);
	return len;
}
