/* SPDX-License-Identifier: Apache-2.0 */
/* Reads results of perf, which may hold anything. */
#include "report_curve.h"

#include <stdlib.h>
#include <string.h>

#include "cli_output.h"

#ifdef TOOL_WITH_JANSSON

#include <jansson.h>
#include <math.h>

int report_is_perf(const char *path)
{
	json_t *root = json_load_file(path, 0, NULL);
	const char *tool = json_string_value(json_object_get(root, "tool"));
	int perf = tool && !strcmp(tool, "perf");

	json_decref(root);
	return perf;
}

static int not_perf(const char *path, const char *what)
{
	cli_error("%s: not a result of 'tcpx perf --json': %s", path, what);
	return -1;
}

/* A number from 0 on; 0 without one. -1: something else is there. */
static int curve_number(const json_t *object, const char *key, double *out)
{
	const json_t *value = json_object_get(object, key);

	*out = json_is_number(value) ? json_number_value(value) : 0;
	return (!value || json_is_null(value) || json_is_number(value)) && isfinite(*out) &&
			       *out >= 0
		       ? 0
		       : -1;
}

/* A word of the file as a label shows it. */
static const char *curve_word(const json_t *object, const char *key, char *buf, size_t cap)
{
	const char *text = json_string_value(json_object_get(object, key));

	snprintf(buf, cap, "%s", text ? text : "?");
	for (char *at = buf; *at; at++)
		if (*at < ' ' || *at > '~' || strchr("'\"\\{}^_@&<>", *at))
			*at = '?';
	return buf;
}

static void put_label(struct report_curve *curve, const json_t *row, const json_t *path)
{
	char op[16], transport[16], local[16], remote[16];
	double channels = 0;

	(void)curve_number(path, "channels", &channels);
	curve_word(row, "op", op, sizeof(op));
	curve_word(path, "local_mem", local, sizeof(local));
	curve_word(path, "remote_mem", remote, sizeof(remote));
	snprintf(curve->label, sizeof(curve->label), "%s %s, %.0f channels, depth %.0f, %s to %s",
		 op, curve_word(path, "transport", transport, sizeof(transport)), channels,
		 json_number_value(json_object_get(row, "depth")), local, remote);
	curve->one_way = !strcmp(op, "latency") || !strcmp(op, "notify") || !strcmp(op, "pingpong");
}

/* The curve of a row's operation and path; NULL: there are too many. */
static struct report_curve *curve_of(struct report_curves *curves, const json_t *row,
				     const json_t *path)
{
	struct report_curve fresh = {.run = curves->nruns};

	put_label(&fresh, row, path);
	for (uint32_t i = 0; i < curves->ncurves; i++)
		if (curves->curves[i].run == fresh.run &&
		    !strcmp(curves->curves[i].label, fresh.label))
			return &curves->curves[i];
	if (curves->ncurves == REPORT_CURVES_MAX)
		return NULL;
	curves->curves[curves->ncurves] = fresh;
	return &curves->curves[curves->ncurves++];
}

static int add_point(struct report_curve *curve, const struct report_point *point)
{
	struct report_point *more =
		realloc(curve->points, (curve->npoints + 1) * sizeof(*curve->points));
	uint32_t at = curve->npoints;

	if (!more)
		return -1;
	curve->points = more;
	for (; at && more[at - 1].size > point->size; at--)
		more[at] = more[at - 1];
	more[at] = *point;
	curve->npoints++;
	return 0;
}

static int curve_row(struct report_curves *curves, const char *file, const json_t *row,
		     const json_t *path)
{
	const json_t *time = json_object_get(row, "time"), *own = json_object_get(row, "path");
	struct report_point point = {.size = 0};
	struct report_curve *curve;
	double size, wrong;

	if (curve_number(row, "size", &size) || size < 1 || size > 1e15 ||
	    curve_number(row, "bytes_per_second", &point.rate) || point.rate <= 0 ||
	    curve_number(time, "p50", &point.p50) || curve_number(time, "p99", &point.p99) ||
	    curve_number(row, "ceiling_bytes_per_second", &point.ceiling) ||
	    curve_number(row, "ceiling_one_way", &point.ceiling_p50) ||
	    curve_number(row, "wrong_bytes", &wrong) || wrong > 1e15)
		return not_perf(file, "a row without size, rate and times");
	point.size = (uint64_t)size;
	point.wrong = (uint64_t)wrong;
	curves->wrong += point.wrong;
	curve = curve_of(curves, row, own ? own : path);
	if (!curve)
		return not_perf(file, "more than 32 curves");
	return add_point(curve, &point) ? not_perf(file, "no memory for its rows") : 0;
}

static int curve_document(struct report_curves *curves, const char *file, const json_t *root)
{
	const json_t *rows = json_object_get(root, "results"),
		     *path = json_object_get(root, "path");
	double schema;

	if (curve_number(root, "schema", &schema) || schema != 1)
		return not_perf(file, "not \"schema\" 1");
	if (!json_is_array(rows) || !json_array_size(rows))
		return not_perf(file, "no \"results\"");
	for (size_t i = 0; i < json_array_size(rows); i++)
		if (curve_row(curves, file, json_array_get(rows, i), path))
			return -1;
	return 0;
}

int report_curves_read(struct report_curves *curves, const char *path)
{
	json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	int rc = root ? curve_document(curves, path, root) : not_perf(path, "it cannot be read");

	json_decref(root);
	if (!rc)
		curves->paths[curves->nruns++] = path;
	return rc;
}

#else

int report_is_perf(const char *path)
{
	(void)path;
	return 0;
}

int report_curves_read(struct report_curves *curves, const char *path)
{
	(void)curves;
	cli_error("%s: this tool was built without jansson, and reads no JSON", path);
	return -1;
}

#endif

void report_curves_free(struct report_curves *curves)
{
	for (uint32_t i = 0; i < curves->ncurves; i++)
		free(curves->curves[i].points);
	curves->ncurves = 0;
}
