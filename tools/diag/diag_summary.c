/* SPDX-License-Identifier: Apache-2.0 */
/* Differences between two texts. */
#include "diag_summary.h"

#include <stdlib.h>
#include <string.h>

struct row {
	const char *text; /* "name: value" */
	size_t name, len;
};

struct rows {
	struct row *rows;
	size_t count;
};

static int compare_rows(const void *a, const void *b)
{
	const struct row *one = a, *two = b;
	size_t shorter = one->name < two->name ? one->name : two->name;
	int order = memcmp(one->text, two->text, shorter);

	if (order)
		return order;
	return one->name < two->name ? -1 : one->name > two->name;
}

/* Sorts the lines that have the separator by name; rows point into text. */
static int split(const char *text, const char *separator, struct rows *out)
{
	size_t lines = 1;

	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	out->count = 0;
	out->rows = calloc(lines, sizeof(*out->rows));
	if (!out->rows)
		return -1;
	while (*text) {
		size_t len = strcspn(text, "\n");
		const char *mark = memmem(text, len, separator, strlen(separator));

		if (mark && mark > text)
			out->rows[out->count++] = (struct row){text, (size_t)(mark - text), len};
		text += len + (text[len] == '\n');
	}
	qsort(out->rows, out->count, sizeof(*out->rows), compare_rows);
	return 0;
}

/* Whether the text is a whole number and nothing else. */
static int diag_summary_number_of(const char *text, size_t len, unsigned long long *out)
{
	char buf[24];

	if (!len || len >= sizeof(buf) || strspn(text, "0123456789") < len)
		return -1;
	memcpy(buf, text, len);
	buf[len] = '\0';
	*out = strtoull(buf, NULL, 10);
	return 0;
}

static void put_change(const struct row *a, const struct row *b, size_t sep, FILE *out)
{
	const char *old = a->text + a->name + sep, *new = b->text + b->name + sep;
	size_t old_len = a->len - a->name - sep, new_len = b->len - b->name - sep;
	unsigned long long from, to;

	fprintf(out, "  %.*s: %.*s -> %.*s", (int)a->name, a->text, (int)old_len, old, (int)new_len,
		new);
	if (!diag_summary_number_of(old, old_len, &from) &&
	    !diag_summary_number_of(new, new_len, &to))
		fprintf(out, "  (%s%llu)", to >= from ? "+" : "-",
			to >= from ? to - from : from - to);
	fputc('\n', out);
}

static void put_alone(const struct row *r, const char *where, size_t sep, FILE *out)
{
	fprintf(out, "  %.*s: only %s: %.*s\n", (int)r->name, r->text, where,
		(int)(r->len - r->name - sep), r->text + r->name + sep);
}

unsigned diag_differences(const char *before, const char *after, const char *separator,
			  const char *names[2], unsigned most, FILE *out)
{
	struct rows a, b = {0};
	size_t i = 0, k = 0, sep = strlen(separator);
	unsigned found = 0;

	if (split(before, separator, &a) || split(after, separator, &b)) {
		free(a.rows);
		return 0;
	}
	while (i < a.count || k < b.count) {
		int order = i == a.count   ? 1
			    : k == b.count ? -1
					   : compare_rows(&a.rows[i], &b.rows[k]);

		if (!order && a.rows[i].len == b.rows[k].len &&
		    !memcmp(a.rows[i].text, b.rows[k].text, a.rows[i].len)) {
			i++;
			k++;
			continue;
		}
		if (found++ < most && order)
			put_alone(order < 0 ? &a.rows[i] : &b.rows[k], names[order > 0], sep, out);
		else if (found <= most)
			put_change(&a.rows[i], &b.rows[k], sep, out);
		i += order <= 0;
		k += order >= 0;
	}
	if (found > most)
		fprintf(out, "  and %u more\n", found - most);
	free(a.rows);
	free(b.rows);
	return found;
}

/* Parses the ticks of a line "cpu0 user nice system idle iowait irq softirq steal ..." */
static int ticks(const char *text, const char *name, unsigned long long *out_busy,
		 unsigned long long *out_all)
{
	size_t len = strlen(name);
	unsigned long long v[8] = {0};

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		if (strncmp(text, name, len) || text[len] != ' ')
			continue;
		if (sscanf(text + len, "%llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1],
			   &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) < 4)
			return -1;
		*out_all = v[0] + v[1] + v[2] + v[3] + v[4] + v[5] + v[6] + v[7];
		*out_busy = *out_all - v[3] - v[4];
		return 0;
	}
	return -1;
}

void diag_cpu_use(const char *before, const char *after, FILE *out)
{
	unsigned long long busy[2], all[2];
	char name[24] = "cpu";

	for (unsigned i = 0;
	     !ticks(before, name, &busy[0], &all[0]) && !ticks(after, name, &busy[1], &all[1]);
	     i++) {
		if (all[1] > all[0])
			fprintf(out, "  %s %llu %%\n", name,
				100 * (busy[1] - busy[0]) / (all[1] - all[0]));
		snprintf(name, sizeof(name), "cpu%u", i);
	}
}
