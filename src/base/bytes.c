/* SPDX-License-Identifier: Apache-2.0 */
/* Byte counts as text. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"

static const char units[] = "KMGTPE";

/* Returns the binary logarithm of the unit that `text` names: 0 for "" and "B", 10 for "K", "KB"
 * and "KiB", and so on. Returns -1 if the unit is unknown. */
static int unit_shift(const char *text)
{
	const char *unit;
	char letter;

	if (!*text || !strcasecmp(text, "B"))
		return 0;
	letter = *text >= 'a' && *text <= 'z' ? (char)(*text - 'a' + 'A') : *text;
	unit = strchr(units, letter);
	if (!unit)
		return -1;
	text++;
	if (*text && strcasecmp(text, "B") && strcasecmp(text, "i") && strcasecmp(text, "iB"))
		return -1;
	return 10 * (int)(unit - units + 1);
}

int bytes_parse(const char *text, uint64_t *out_bytes)
{
	unsigned __int128 value = 0, scale = 1;
	int digits = 0, fraction = 0, shift;

	for (; *text; text++) {
		if (*text == '.' && !fraction && digits) {
			fraction = 1;
			continue;
		}
		if (*text < '0' || *text > '9')
			break;
		if (++digits > 20)
			return -1;
		value = value * 10 + (unsigned)(*text - '0');
		if (fraction)
			scale *= 10;
	}
	if (!digits || (fraction && scale == 1))
		return -1;
	if (*text == ' ')
		text++;
	shift = unit_shift(text);
	if (shift < 0 || (fraction && !shift))
		return -1;
	/* value < 10^20 < 2^67 and shift <= 60, so the shifted value fits into 128 bits */
	value = (value << shift) / scale;
	if (value > UINT64_MAX)
		return -1;
	*out_bytes = (uint64_t)value;
	return 0;
}

char *bytes_format(uint64_t bytes, char *buf, size_t cap)
{
	int unit = 0, cut = 0;
	uint64_t hundredths;

	while (unit < 6 && bytes >> (10 * (unit + 1)))
		unit++;
	if (!unit) {
		snprintf(buf, cap, "%u B", (unsigned)bytes);
		return buf;
	}
	hundredths = (uint64_t)(((unsigned __int128)bytes * 100 + (1ULL << (10 * unit - 1))) >>
				(10 * unit)); /* rounded to the nearest */
	if (hundredths % 100)
		cut = hundredths % 10 ? 2 : 1;
	if (!cut)
		snprintf(buf, cap, "%u %ciB", (unsigned)(hundredths / 100), units[unit - 1]);
	else
		snprintf(buf, cap, "%u.%0*u %ciB", (unsigned)(hundredths / 100), cut,
			 (unsigned)(hundredths % 100) / (cut == 1 ? 10 : 1), units[unit - 1]);
	return buf;
}

char *bytes_compact(uint64_t bytes, char *buf, size_t cap)
{
	int unit = 0;

	while (unit < 6 && bytes && !(bytes & ((1ULL << (10 * (unit + 1))) - 1)))
		unit++;
	if (unit)
		snprintf(buf, cap, "%llu%c", (unsigned long long)(bytes >> (10 * unit)),
			 units[unit - 1]);
	else
		snprintf(buf, cap, "%llu", (unsigned long long)bytes);
	return buf;
}
