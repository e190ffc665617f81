/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes the names of options, and finds the option nearest to a misspelt name. */
#include <string.h>

#include "base/config.h"

#define NAME_MAX_LEN 64

/* Variables whose names begin like those of options, but that only scripts or plugins of this
 * library's predecessor read. They are not reported as misspelt options. */
static const char *const foreign[] = {
	"TCPX_RUNTIME_LIBDIR",	  "TCPX_SRC_LIBDIR",
	"TCPX_SSH_CMD",		  "TCPX_RXMEM_IMPORT_USE_GPU_PCI_CLIENT",
	"UCCL_TCPX_KERNEL_DEBUG", "UCCL_TCPX_PROBE_BYTE",
	"UCCL_TCPX_USE_STAGING",  "UCCL_TCPX_PAYLOAD_BYTES",
	"UCCL_TCPX_DO_ASYNC",	  "UCCL_TCPX_OOB_BASE_PORT",
};

static int same_name(const char *a, size_t a_len, const char *b, size_t b_len)
{
	return a_len == b_len && !memcmp(a, b, a_len);
}

int config_known(const char *name, size_t len)
{
	const struct config_row *row;

	for (unsigned i = 0; (row = config_row(i)) != NULL; i++) {
		const char *alias = row->aliases;

		if (same_name(name, len, row->name, strlen(row->name)))
			return 1;
		while (*alias) {
			size_t alias_len = strcspn(alias, " ");

			if (same_name(name, len, alias, alias_len))
				return 1;
			alias += alias_len + (alias[alias_len] == ' ');
		}
	}
	for (unsigned i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		if (same_name(name, len, foreign[i], strlen(foreign[i])))
			return 1;
	return 0;
}

/* Returns the name without its prefix UCCL_TCPX_ or TCPX_, if it has one, and reduces *len. */
static const char *strip_prefix(const char *name, size_t *len)
{
	static const char *const prefixes[] = {"UCCL_TCPX_", "TCPX_"};

	for (unsigned i = 0; i < 2; i++) {
		size_t prefix = strlen(prefixes[i]);

		if (*len >= prefix && !memcmp(name, prefixes[i], prefix)) {
			*len -= prefix;
			return name + prefix;
		}
	}
	return name;
}

/* Returns the edit distance of two names. Inserting, deleting or replacing a character costs 1;
 * swapping two adjacent characters costs 1 as well. If a name is longer than NAME_MAX_LEN, returns
 * NAME_MAX_LEN. */
static unsigned edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	unsigned before[NAME_MAX_LEN + 1] = {0}, last[NAME_MAX_LEN + 1], now[NAME_MAX_LEN + 1];

	if (a_len > NAME_MAX_LEN || b_len > NAME_MAX_LEN)
		return NAME_MAX_LEN;
	for (size_t j = 0; j <= b_len; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= a_len; i++) {
		now[0] = (unsigned)i;
		for (size_t j = 1; j <= b_len; j++) {
			unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			now[j] = best;
		}
		memcpy(before, last, sizeof(before));
		memcpy(last, now, sizeof(last));
	}
	return last[b_len];
}

/* Compares `name` with `other`, which is the name or an alias of the option `row`. If their
 * distance is less than *best, *best becomes that distance, and *nearest the option's name. */
static void keep_nearest(const char *name, size_t len, const char *other, size_t other_len,
			 const struct config_row *row, unsigned *best, const char **nearest)
{
	unsigned d;

	other = strip_prefix(other, &other_len);
	d = edit_distance(name, len, other, other_len);
	if (d < *best) {
		*best = d;
		*nearest = row->name;
	}
}

const char *config_nearest(const char *name, size_t len)
{
	const struct config_row *row;
	const char *nearest = "";
	unsigned best;

	name = strip_prefix(name, &len);
	/* Short names are near one another. So the distance may be 0 below 2 letters, 1 below 6, 2
	 * below 9, else 3. */
	best = len < 2 ? 1 : len < 6 ? 2 : len < 9 ? 3 : 4;
	for (unsigned i = 0; (row = config_row(i)) != NULL; i++) {
		const char *alias = row->aliases;

		keep_nearest(name, len, row->name, strlen(row->name), row, &best, &nearest);
		while (*alias) {
			size_t alias_len = strcspn(alias, " ");

			keep_nearest(name, len, alias, alias_len, row, &best, &nearest);
			alias += alias_len + (alias[alias_len] == ' ');
		}
	}
	return nearest;
}
