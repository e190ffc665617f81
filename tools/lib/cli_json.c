/* SPDX-License-Identifier: Apache-2.0 */
/* JSON documents by jansson. */
#include "cli_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli_output.h"

#ifdef TOOL_WITH_JANSSON
#include <jansson.h>

static int incomplete; /* a member could not be added */

int cli_json_available(void)
{
	return 1;
}

struct cli_json *cli_json_new(void)
{
	return (struct cli_json *)json_object();
}

void cli_json_free(struct cli_json *document)
{
	json_decref((json_t *)document);
}

static struct cli_json *add_member(struct cli_json *parent, const char *key, json_t *value)
{
	json_t *into = (json_t *)parent;

	if (key ? json_object_set_new(into, key, value) : json_array_append_new(into, value))
		incomplete = 1;
	return incomplete ? NULL : (struct cli_json *)value;
}

struct cli_json *cli_json_object(struct cli_json *parent, const char *key)
{
	return add_member(parent, key, json_object());
}

struct cli_json *cli_json_array(struct cli_json *parent, const char *key)
{
	return add_member(parent, key, json_array());
}

void cli_json_text(struct cli_json *parent, const char *key, const char *text)
{
	json_t *value = json_string(text);

	/* names of other hosts need not be UTF-8 */
	add_member(parent, key, value ? value : json_string("?"));
}

void cli_json_integer(struct cli_json *parent, const char *key, uint64_t value)
{
	add_member(parent, key, json_integer((json_int_t)value));
}

void cli_json_real(struct cli_json *parent, const char *key, double value)
{
	add_member(parent, key, json_real(value));
}

void cli_json_bool(struct cli_json *parent, const char *key, int value)
{
	add_member(parent, key, json_boolean(value));
}

void cli_json_null(struct cli_json *parent, const char *key)
{
	add_member(parent, key, json_null());
}

struct cli_json *cli_json_read(FILE *in)
{
	return (struct cli_json *)json_loadf(in, 0, NULL);
}

void cli_json_spread(struct cli_json *document, const char *key, const char *array)
{
	json_t *value = json_object_get((json_t *)document, key), *entry;
	size_t i;

	json_array_foreach(json_object_get((json_t *)document, array), i,
			   entry) if (value && !json_object_get(entry, key)) incomplete |=
		json_object_set(entry, key, value);
}

void cli_json_raise(struct cli_json *document, const char *array, const char *key, uint64_t by)
{
	json_t *entry;
	size_t i;

	json_array_foreach(json_object_get((json_t *)document, array), i, entry)
	{
		json_t *value = json_object_get(entry, key);

		incomplete |= json_integer_set(value, json_integer_value(value) + (json_int_t)by);
	}
}

void cli_json_extend(struct cli_json *document, struct cli_json *more, const char *array)
{
	json_t *from = json_object_get((json_t *)more, array);
	json_t *into = json_object_get((json_t *)document, array);

	if (from && into)
		incomplete |= json_array_extend(into, from);
	else if (from)
		incomplete |= json_object_set((json_t *)document, array, from);
}

void cli_json_take(struct cli_json *document, struct cli_json *more, const char *key)
{
	json_t *value = json_object_get((json_t *)more, key);

	if (value)
		incomplete |= json_object_set((json_t *)document, key, value);
	else
		(void)json_object_del((json_t *)document, key);
}

int cli_json_write(struct cli_json *document, FILE *out, const char *path)
{
	int rc, err;

	if (incomplete)
		cli_error("--json: out of memory");
	rc = incomplete ||
	     json_dumpf((json_t *)document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) ||
	     fputc('\n', out) == EOF;
	if (out == stdout)
		return cli_flush(out) || rc ? -1 : 0;
	rc = fflush(out) || rc;
	err = errno;
	rc = fclose(out) || rc;
	if (rc && !incomplete)
		cli_error("--json %s: %s", path, strerror(err));
	return rc ? -1 : 0;
}

#else

int cli_json_available(void)
{
	return 0;
}

struct cli_json *cli_json_new(void)
{
	return NULL;
}

void cli_json_free(struct cli_json *document)
{
	(void)document;
}

struct cli_json *cli_json_object(struct cli_json *parent, const char *key)
{
	(void)parent;
	(void)key;
	return NULL;
}

struct cli_json *cli_json_array(struct cli_json *parent, const char *key)
{
	return cli_json_object(parent, key);
}

void cli_json_text(struct cli_json *parent, const char *key, const char *text)
{
	(void)text;
	cli_json_object(parent, key);
}

void cli_json_integer(struct cli_json *parent, const char *key, uint64_t value)
{
	(void)value;
	cli_json_object(parent, key);
}

void cli_json_real(struct cli_json *parent, const char *key, double value)
{
	(void)value;
	cli_json_object(parent, key);
}

void cli_json_bool(struct cli_json *parent, const char *key, int value)
{
	(void)value;
	cli_json_object(parent, key);
}

void cli_json_null(struct cli_json *parent, const char *key)
{
	cli_json_object(parent, key);
}

struct cli_json *cli_json_read(FILE *in)
{
	(void)in;
	return NULL;
}

void cli_json_spread(struct cli_json *document, const char *key, const char *array)
{
	(void)array;
	cli_json_object(document, key);
}

void cli_json_raise(struct cli_json *document, const char *array, const char *key, uint64_t by)
{
	(void)by;
	cli_json_spread(document, key, array);
}

void cli_json_extend(struct cli_json *document, struct cli_json *more, const char *array)
{
	(void)more;
	cli_json_object(document, array);
}

void cli_json_take(struct cli_json *document, struct cli_json *more, const char *key)
{
	cli_json_extend(document, more, key);
}

int cli_json_write(struct cli_json *document, FILE *out, const char *path)
{
	(void)document;
	(void)out;
	(void)path;
	return -1;
}

#endif

FILE *cli_json_open(const char *path)
{
	FILE *out = strcmp(path, "-") ? fopen(path, "we") : stdout;

	if (!out)
		cli_error("--json %s: %s", path, strerror(errno));
	return out;
}

int cli_json_check(void)
{
	if (cli_json_available())
		return 0;
	return cli_usage("--json: built without jansson; install it and build again");
}
