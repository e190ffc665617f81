/* SPDX-License-Identifier: Apache-2.0 */
/* The values of all options, read once from the environment and checked against the table in
 * config.h. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/config.h"
#include "base/error.h"

static const struct config_row rows[] = {
#define CONFIG_ROW(id, name, aliases, type, def, min, max, help)                                   \
	[CONFIG_##id] = {name, aliases, CONFIG_##type, def, min, max, help},
	CONFIG_MAP(CONFIG_ROW)
#undef CONFIG_ROW
};

static struct config_value values[CONFIG_IDS]; /* those of the environment */
/* The values in force. What these point to does not change and is not freed, because any thread may
 * read it while another one sets the option. */
static const struct config_value *_Atomic current[CONFIG_IDS];
static char ranges[CONFIG_IDS][48]; /* texts that config_range() returns */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int parse_number(const char *text, uint64_t *out)
{
	uint64_t value = 0;

	if (!*text)
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || value > (UINT64_MAX - 9) / 10)
			return -1;
		value = value * 10 + (unsigned)(*text - '0');
	}
	*out = value;
	return 0;
}

static int parse_word(const char *text, const char *const *words, unsigned count, uint64_t *out)
{
	for (unsigned i = 0; i < count; i++) {
		if (!strcasecmp(text, words[i])) {
			*out = i;
			return 0;
		}
	}
	return -1;
}

static int parse_bool(const char *text, uint64_t *out)
{
	static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};

	if (parse_word(text, words, 8, out))
		return -1;
	*out &= 1;
	return 0;
}

static int parse_level(int is_alias, const char *text, uint64_t *out)
{
	static const char *const words[] = {"error", "warn", "info", "debug", "trace"};

	if (!parse_word(text, words, 5, out))
		return 0;
	/* The aliases of TCPX_LOG are on/off flags of this library's predecessor. On, or a number
	 * from 1 to 4, means level trace, at which each chunk is logged; off means level warn. */
	if (is_alias) {
		if (parse_bool(text, out) && (parse_number(text, out) || *out > 4))
			return -1;
		*out = *out ? TCPX_LOG_TRACE : TCPX_LOG_WARN;
		return 0;
	}
	if (!strcasecmp(text, "warning")) {
		*out = TCPX_LOG_WARN;
		return 0;
	}
	return parse_number(text, out);
}

static int parse_copy(const char *text, uint64_t *out)
{
	static const char *const words[] = {"auto", "engine", "kernel"};

	return parse_word(text, words, 3, out);
}

static int parse_ports(const struct config_row *row, const char *text, uint64_t *out)
{
	const char *dash = strchr(text, '-');
	uint64_t lo, hi;
	char first[8];

	if (!dash || (size_t)(dash - text) >= sizeof(first))
		return -1;
	memcpy(first, text, (size_t)(dash - text));
	first[dash - text] = '\0';
	if (parse_number(first, &lo) || parse_number(dash + 1, &hi))
		return -1;
	if (lo < row->min || hi > row->max || lo > hi)
		return -1;
	*out = lo << 16 | hi;
	return 0;
}

int config_parse(const struct config_row *row, int is_alias, const char *text, uint64_t *out_value)
{
	uint64_t value = 0;
	int rc = 0;

	if (!*text && !*row->default_text) {
		*out_value = 0; /* unset, and without a default */
		return 0;
	}
	switch (row->type) {
	case CONFIG_BYTES:
		rc = bytes_parse(text, &value);
		break;
	case CONFIG_COUNT:
	case CONFIG_MS:
	case CONFIG_US:
		if (strcmp(row->default_text, "auto") || strcasecmp(text, "auto"))
			rc = parse_number(text, &value);
		break;
	case CONFIG_BOOL:
		rc = parse_bool(text, &value);
		break;
	case CONFIG_LEVEL:
		rc = parse_level(is_alias, text, &value);
		break;
	case CONFIG_COPY:
		rc = parse_copy(text, &value);
		break;
	case CONFIG_PORTS:
		if (parse_ports(row, text, out_value))
			return -1;
		return 0;
	case CONFIG_TEXT:
	case CONFIG_PATH:
		value = strlen(text);
		break;
	}
	if (rc || value < row->min || value > row->max)
		return -1;
	*out_value = value;
	return 0;
}

/* Returns the next alias in *list and stores its length in *out_len. Moves *list past the alias.
 * Returns NULL at the end of the list. */
static const char *next_alias(const char **list, size_t *out_len)
{
	const char *start = *list;
	size_t len = strcspn(start, " ");

	if (!len)
		return NULL;
	*list = start + len + (start[len] == ' ');
	*out_len = len;
	return start;
}

/* Takes the option's value from the variable `name`, whose content is `text`. Returns 1 if the
 * variable is set, even if its text is wrong. Returns 0 if it is unset or empty, so that the caller
 * tries the next variable. */
static int resolve_from(const struct config_row *row, int is_alias, const char *name,
			const char *text, struct config_value *out)
{
	if (!text || !*text)
		return 0;
	if (config_parse(row, is_alias, text, &out->u64)) {
		out->wrong = name;
		out->wrong_text = text;
		return 1;
	}
	out->text = text;
	out->source = is_alias ? CONFIG_ALIAS : CONFIG_ENVIRONMENT;
	return 1;
}

void config_resolve(const struct config_row *row, const char *(*get)(const char *name),
		    struct config_value *out)
{
	const char *list = row->aliases, *alias;
	char name[64];
	size_t len;

	memset(out, 0, sizeof(*out));
	out->text = row->default_text;
	(void)config_parse(row, 0, row->default_text, &out->u64);
	if (resolve_from(row, 0, row->name, get(row->name), out))
		return;
	while ((alias = next_alias(&list, &len)) != NULL) {
		if (len >= sizeof(name))
			continue;
		memcpy(name, alias, len);
		name[len] = '\0';
		if (resolve_from(row, 1, alias, get(name), out))
			return;
	}
}

/* Uses secure_getenv(), so that the user of a setuid program cannot choose the files that the
 * program loads. */
static const char *get_environment(const char *name)
{
	return secure_getenv(name);
}

static void range_make(unsigned i)
{
	char lo[BYTES_TEXT_MAX], hi[BYTES_TEXT_MAX], *out = ranges[i];
	const struct config_row *row = &rows[i];
	size_t cap = sizeof(ranges[i]);

	switch (row->type) {
	case CONFIG_BYTES:
		snprintf(out, cap, "%s..%s", bytes_compact(row->min, lo, sizeof(lo)),
			 bytes_compact(row->max, hi, sizeof(hi)));
		break;
	case CONFIG_BOOL:
		snprintf(out, cap, "0 or 1");
		break;
	case CONFIG_LEVEL:
		snprintf(out, cap, "error..trace");
		break;
	case CONFIG_COPY:
		snprintf(out, cap, "auto, engine or kernel");
		break;
	case CONFIG_PORTS:
		snprintf(out, cap, "lo-hi in %u..%u", (unsigned)row->min, (unsigned)row->max);
		break;
	case CONFIG_TEXT:
	case CONFIG_PATH:
		snprintf(out, cap, "up to %u bytes", (unsigned)row->max);
		break;
	default:
		if (!strcmp(row->default_text, "auto"))
			snprintf(out, cap, "1..%llu or auto", (unsigned long long)row->max);
		else
			snprintf(out, cap, "%llu..%llu", (unsigned long long)row->min,
				 (unsigned long long)row->max);
	}
}

static void warn_if_wrong(unsigned i)
{
	const struct config_value *value = &values[i];
	const char *default_text = rows[i].default_text;

	if (value->wrong)
		LOG_WARN("%.*s=%s is not in %s (%s); using the default %s",
			 (int)strcspn(value->wrong, " "), value->wrong, value->wrong_text,
			 ranges[i], config_type_name(rows[i].type),
			 *default_text ? default_text : "(empty)");
}

/* Returns a value with a copy of the text, and otherwise empty. It is never freed, because a caller
 * of config_value() or config_text() may keep the pointer. Returns NULL if there is no memory. */
static struct config_value *keep_forever(const char *text)
{
	static struct kept {
		struct kept *next;
		struct config_value value;
		char text[];
	} * all;
	size_t bytes = strlen(text) + 1;
	struct kept *one = calloc(1, sizeof(*one) + bytes);

	if (!one)
		return NULL;
	memcpy(one->text, text, bytes);
	one->value.text = one->text;
	one->next = all;
	all = one;
	return &one->value;
}

static void load_environment(void)
{
	for (unsigned i = 0; i < CONFIG_IDS; i++) {
		const struct config_value *copy;

		range_make(i);
		config_resolve(&rows[i], get_environment, &values[i]);
		if (values[i].source == CONFIG_DEFAULT)
			continue;
		copy = keep_forever(values[i].text); /* the environment may change later */
		if (copy) {
			values[i].text = copy->text;
		} else {
			values[i].text = rows[i].default_text;
			values[i].source = CONFIG_DEFAULT;
			(void)config_parse(&rows[i], 0, values[i].text, &values[i].u64);
		}
	}
	/* Set the level before the first log line. Otherwise log_write() would call config_u64(),
	 * which would wait for this function to return. */
	log_level_default((int)values[CONFIG_LOG].u64);
	for (unsigned i = 0; i < CONFIG_IDS; i++) {
		warn_if_wrong(i);
		values[i].wrong = values[i].wrong_text = NULL;
		atomic_store_explicit(&current[i], &values[i], memory_order_release);
	}
}

static pthread_mutex_t set_lock = PTHREAD_MUTEX_INITIALIZER;
static bool fixed; /* guarded by set_lock */

/* Parses and checks a text for option `i`. Replaces the text "" by the option's default. */
static tcpx_status check_value(unsigned i, const char **inout_text, uint64_t *out_u64)
{
	const struct config_row *row = &rows[i];

	if (!**inout_text)
		*inout_text = row->default_text;
	if (config_parse(row, 0, *inout_text, out_u64))
		return error_set(TCPX_ERR_INVALID, 0, "%s=%.60s is not in %s (%s)", row->name,
				 *inout_text, ranges[i], config_type_name(row->type));
	return TCPX_OK;
}

/* Whether option `i` has that value already. Numbers are compared as numbers, because several texts
 * can mean the same number. */
static bool same_value(unsigned i, const char *text, uint64_t number)
{
	if (rows[i].type == CONFIG_TEXT || rows[i].type == CONFIG_PATH)
		return !strcmp(text, config_text((enum config_id)i));
	return number == config_u64((enum config_id)i);
}

static tcpx_status set_value(unsigned i, const char *text)
{
	struct config_value *value;
	uint64_t number;
	tcpx_status status = check_value(i, &text, &number);

	if (status != TCPX_OK || same_value(i, text, number))
		return status;
	if (fixed) {
		error_set(TCPX_ERR_STATE, 0, "%s is already %.60s in this process, not %.60s",
			  rows[i].name, config_text((enum config_id)i), text);
		return error_next("it applies to all sessions of the process: set it before the "
				  "first one is opened");
	}
	value = keep_forever(text);
	if (!value)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "option %s", rows[i].name);
	value->u64 = number;
	value->source = CONFIG_SET;
	atomic_store_explicit(&current[i], value, memory_order_release);
	if (i == CONFIG_LOG)
		log_level_set((int)number);
	return TCPX_OK;
}

/* Returns the index of the option with that name. If no option has that name, returns CONFIG_IDS
 * and sets ERR_NOT_FOUND as the last error. */
static unsigned row_named(const char *name)
{
	const char *nearest;
	unsigned i = 0;

	pthread_once(&once, load_environment);
	while (i < CONFIG_IDS && strcmp(rows[i].name, name))
		i++;
	if (i == CONFIG_IDS) {
		nearest = config_nearest(name, strlen(name));
		error_set(TCPX_ERR_NOT_FOUND, 0, "no option is named %.60s", name);
		error_next(*nearest ? "did you mean %s?" : "'tcpx info --env' lists them%s",
			   nearest);
	}
	return i;
}

tcpx_status config_check(const char *name, const char *text, uint64_t *out_u64)
{
	unsigned i = row_named(name);

	return i < CONFIG_IDS ? check_value(i, &text, out_u64) : TCPX_ERR_NOT_FOUND;
}

tcpx_status config_set(const char *name, const char *text)
{
	unsigned i = row_named(name);
	tcpx_status status;

	if (i == CONFIG_IDS)
		return TCPX_ERR_NOT_FOUND;
	pthread_mutex_lock(&set_lock);
	status = set_value(i, text);
	pthread_mutex_unlock(&set_lock);
	return status;
}

void config_fix(void)
{
	pthread_mutex_lock(&set_lock);
	fixed = true;
	pthread_mutex_unlock(&set_lock);
}

const struct config_value *config_value(enum config_id id)
{
	pthread_once(&once, load_environment);
	return atomic_load_explicit(&current[id], memory_order_acquire);
}

uint64_t config_u64(enum config_id id)
{
	return config_value(id)->u64;
}

int config_bool(enum config_id id)
{
	return config_value(id)->u64 != 0;
}

const char *config_text(enum config_id id)
{
	return config_value(id)->text;
}

const struct config_row *config_row(unsigned index)
{
	return index < CONFIG_IDS ? &rows[index] : NULL;
}

const char *config_range(unsigned index)
{
	pthread_once(&once, load_environment);
	return index < CONFIG_IDS ? ranges[index] : "";
}

const char *config_type_name(enum config_type type)
{
	static const char *const names[] = {"bytes", "count", "ms",    "us",   "bool",
					    "log",   "copy",  "ports", "text", "path"};

	return names[type];
}
