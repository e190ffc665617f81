/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a result of mesh, which may hold anything. */
#include <stdlib.h>

#include "base/text.h"
#include "cli_output.h"
#include "report.h"

#ifdef TOOL_WITH_JANSSON

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

struct reading {
	const char *path;
	struct report *out;
	uint32_t *first; /* index of the first end of each rank, and one past the last */
};

static int wrong(const struct reading *r, const char *what)
{
	cli_error("%s: not a result of 'tcpx mesh' or 'tcpx perf --json': %s", r->path, what);
	return -1;
}

/* Reports an error of the parser, or of opening the file. */
static int report_unread(const struct reading *r, const json_error_t *error)
{
	char what[JSON_ERROR_TEXT_LENGTH + 32];
	int err = errno;

	if (json_error_code(error) == json_error_cannot_open_file) {
		cli_error("%s: %s", r->path, strerror(err));
		return -1;
	}
	text_format(what, sizeof(what), "%s, line %d", error->text, error->line);
	return wrong(r, what);
}

/* Returns 0 for a whole number up to max. */
static int report_read_number(const json_t *object, const char *key, uint64_t max, uint64_t *out)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    (uint64_t)json_integer_value(value) > max)
		return -1;
	*out = (uint64_t)json_integer_value(value);
	return 0;
}

static int report_read_rate(const json_t *object, const char *key, double *out)
{
	const json_t *value = json_object_get(object, key);

	*out = json_number_value(value);
	return json_is_number(value) && isfinite(*out) && *out >= 0 ? 0 : -1;
}

/* Cleans a name, which is shown on terminals and pages. */
static void take_name(char out[REPORT_HOST_MAX], const char *text)
{
	snprintf(out, REPORT_HOST_MAX, "%s", text);
	for (char *at = out; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
}

static int read_rank(struct reading *r, const json_t *rank, uint32_t index)
{
	const json_t *host = json_object_get(rank, "host"), *gpus = json_object_get(rank, "gpus");
	struct report *out = r->out;
	uint64_t value;

	if (report_read_number(rank, "rank", UINT32_MAX, &value) || value != index ||
	    !json_is_string(host) || !json_is_array(gpus))
		return wrong(r, "\"ranks\" are not ranks from 0 with host and gpus");
	take_name(out->hosts[index], json_string_value(host));
	r->first[index] = out->nends;
	for (size_t i = 0; i < json_array_size(gpus); i++) {
		if (report_read_number(json_array_get(gpus, i), "gpu", UINT32_MAX, &value))
			return wrong(r, "a GPU without its number");
		if (out->nends == REPORT_ENDS_MAX)
			return wrong(r, "more than 4096 GPUs");
		out->ends[out->nends++] = (struct report_end){
			.rank = index, .gpu = (uint32_t)value, .host = out->hosts[index]};
	}
	return 0;
}

static int read_ranks(struct reading *r, const json_t *ranks)
{
	size_t count = json_array_size(ranks);

	if (!json_is_array(ranks) || !count || count > REPORT_ENDS_MAX)
		return wrong(r, "no \"ranks\"");
	r->out->hosts = calloc(count, sizeof(*r->out->hosts));
	r->out->ends = calloc(REPORT_ENDS_MAX, sizeof(*r->out->ends));
	r->first = calloc(count + 1, sizeof(*r->first));
	if (!r->out->hosts || !r->out->ends || !r->first)
		return wrong(r, "no memory for its ranks");
	for (; r->out->nranks < count; r->out->nranks++)
		if (read_rank(r, json_array_get(ranks, r->out->nranks), r->out->nranks))
			return -1;
	r->first[count] = r->out->nends;
	return 0;
}

/* The index of the end [rank, GPU]; -1: there is no such end. */
static int64_t end_of(const struct reading *r, const json_t *pair)
{
	json_int_t rank = json_integer_value(json_array_get(pair, 0));
	json_int_t gpu = json_integer_value(json_array_get(pair, 1));

	if (json_array_size(pair) != 2 || !json_is_integer(json_array_get(pair, 0)) ||
	    !json_is_integer(json_array_get(pair, 1)) || rank < 0 || rank >= r->out->nranks)
		return -1;
	for (uint32_t i = r->first[rank]; i < r->first[rank + 1]; i++)
		if (r->out->ends[i].gpu == gpu)
			return i;
	return -1;
}

static int read_cell(struct reading *r, const json_t *cell)
{
	struct report_cell *out = &r->out->cells[r->out->ncells];
	int64_t from = end_of(r, json_object_get(cell, "from"));
	int64_t to = end_of(r, json_object_get(cell, "to"));

	if (from < 0 || to < 0 || from == to)
		return wrong(r, "a cell whose \"from\" or \"to\" is no GPU of \"ranks\"");
	if (report_read_rate(cell, "rate", &out->rate) ||
	    report_read_rate(cell, "least", &out->least) ||
	    report_read_rate(cell, "most", &out->most) ||
	    report_read_number(cell, "wrong", INT64_MAX, &out->wrong))
		return wrong(r, "a cell without rate, least, most and wrong");
	out->from = (uint32_t)from;
	out->to = (uint32_t)to;
	r->out->ncells++;
	return 0;
}

static int read_cells(struct reading *r, const json_t *cells)
{
	size_t count = json_array_size(cells);
	unsigned char *seen;
	int rc = 0;

	if (!json_is_array(cells) || count > (size_t)r->out->nends * r->out->nends)
		return wrong(r, "no \"cells\", or more than there are pairs");
	r->out->cells = calloc(count + 1, sizeof(*r->out->cells));
	seen = calloc((size_t)r->out->nends * r->out->nends + 1, 1);
	if (!r->out->cells || !seen) {
		free(seen);
		return wrong(r, "no memory for its cells");
	}
	for (size_t i = 0; i < count && !rc; i++) {
		const struct report_cell *cell = &r->out->cells[i];

		rc = read_cell(r, json_array_get(cells, i));
		if (!rc && seen[(size_t)cell->from * r->out->nends + cell->to]++)
			rc = wrong(r, "a cell appears twice");
	}
	free(seen);
	return rc;
}

static int report_read_read_document(struct reading *r, const json_t *root)
{
	const char *tool = json_string_value(json_object_get(root, "tool"));
	const char *op = json_string_value(json_object_get(root, "op"));
	uint64_t schema = 0;

	if (!tool || strcmp(tool, "mesh") != 0)
		return wrong(r, tool ? "it is of another command" : "no \"tool\"");
	if (report_read_number(root, "schema", 1, &schema) || schema != 1)
		return wrong(r, "not \"schema\" 1");
	if (!op || (strcmp(op, "write") && strcmp(op, "read") && strcmp(op, "send")) ||
	    report_read_number(root, "size", INT64_MAX, &r->out->size) ||
	    report_read_number(root, "iters", INT64_MAX, &r->out->iters))
		return wrong(r, "no \"op\", \"size\" or \"iters\"");
	snprintf(r->out->op, sizeof(r->out->op), "%s", op);
	if (read_ranks(r, json_object_get(root, "ranks")))
		return -1;
	return read_cells(r, json_object_get(root, "cells"));
}

int report_read(const char *path, struct report *out)
{
	struct reading r = {.path = path, .out = out};
	json_error_t error;
	json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	int rc;

	*out = (struct report){.nranks = 0};
	if (!root)
		return report_unread(&r, &error);
	rc = report_read_read_document(&r, root);
	json_decref(root);
	free(r.first);
	if (rc)
		report_free(out);
	return rc;
}

#else

int report_read(const char *path, struct report *out)
{
	(void)out;
	cli_error("%s: this tool was built without jansson, and reads no JSON", path);
	return -1;
}

#endif

void report_free(struct report *report)
{
	free(report->hosts);
	free(report->ends);
	free(report->cells);
	*report = (struct report){.nranks = 0};
}
