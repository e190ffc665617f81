/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of all options. Each option is an environment variable. If the API has a field for the
 * option, the field takes precedence over the variable. The variable TCPX_... takes precedence over
 * its aliases, and an earlier alias over a later one. An option with an empty default is 0 or ""
 * when it is unset; the code that reads the option decides what that means.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "base/config_plugin_rows.h"
#include "base/config_rows.h"

/* How the text of an option is parsed, and what config_u64() returns. */
enum config_type {
	CONFIG_BYTES, /* a number of bytes, such as 64K */
	CONFIG_COUNT, /* a number; "auto" is 0, accepted if it is the option's default */
	CONFIG_MS,
	CONFIG_US,
	CONFIG_BOOL,  /* one of 0 1 no yes off on false true */
	CONFIG_LEVEL, /* enum tcpx_log_level by name or number */
	CONFIG_COPY,  /* enum config_copies by name */
	CONFIG_PORTS, /* "lo-hi"; config_u64() returns lo << 16 | hi */
	CONFIG_TEXT,  /* a text of at most `max` bytes */
	CONFIG_PATH,
};

/* X(id, ...) for each option, in the order of the documents; see config_rows.h. */
#define CONFIG_MAP(X) CONFIG_ROWS(X) CONFIG_PLUGIN_ROWS(X)

enum config_id {
#define CONFIG_ENUM(id, ...) CONFIG_##id,
	CONFIG_MAP(CONFIG_ENUM)
#undef CONFIG_ENUM
		CONFIG_IDS,
};

/* Values of a CONFIG_COPY option. */
enum config_copies { CONFIG_COPIES_AUTO, CONFIG_COPIES_ENGINE, CONFIG_COPIES_KERNEL };

/* Where a value comes from. CONFIG_SET stands for a call of config_set(). */
enum config_source { CONFIG_DEFAULT, CONFIG_ENVIRONMENT, CONFIG_ALIAS, CONFIG_SET };

/* A row of the table of options. */
struct config_row {
	const char *name, *aliases;
	enum config_type type;
	const char *default_text;
	uint64_t min, max; /* limits of the value; for TEXT and PATH, of its length */
	const char *help;
};

/* The value of an option. */
struct config_value {
	uint64_t u64;	  /* the parsed value; for TEXT and PATH, its length */
	const char *text; /* the value as text: as the user wrote it, or the default */
	enum config_source source;
	/* name of the variable whose text was refused, up to a blank or NUL; NULL if none was */
	const char *wrong;
	const char *wrong_text;
};

/* Return the value in force in this process: the one that config_set() set last, otherwise the one
 * from the environment, otherwise the default. The first access to any option reads the
 * environment; later changes of the environment are ignored. The struct or text that a pointer
 * leads to never changes; config_set() makes another one. Any thread. */
uint64_t config_u64(enum config_id id);
int config_bool(enum config_id id);
const char *config_text(enum config_id id); /* never NULL; "" if unset and without a default */
const struct config_value *config_value(enum config_id id);

/* Sets an option, whatever the environment says. The text "" sets the default. Returns
 * ERR_NOT_FOUND if there is no such option, ERR_INVALID if the text is malformed or out of range,
 * ERR_NO_MEMORY, or ERR_STATE if the value would change after config_fix(). Any thread. */
tcpx_status config_set(const char *name, const char *text);
/* Checks whether config_set() would accept the text. Returns OK, ERR_NOT_FOUND or ERR_INVALID as
 * config_set() does, whether config_fix() was called or not. *out_u64 becomes what config_u64()
 * would return. */
tcpx_status config_check(const char *name, const char *text, uint64_t *out_u64);
/* After this call config_set() refuses every change. */
void config_fix(void);

const struct config_row *config_row(unsigned index); /* NULL if there is no such row */
const char *config_type_name(enum config_type type);
const char *config_range(unsigned index); /* such as "4K..16M"; never freed */

/* Finds the value of an option. The function `get` returns the text of a variable, or NULL. If that
 * text is wrong, the default stays in force, and out->wrong names the variable. Texts in *out may
 * point to what `get` returned. */
void config_resolve(const struct config_row *row, const char *(*get)(const char *name),
		    struct config_value *out);

/* Parses the text of an option. Returns 0, or -1 if the text is malformed or out of range. is_alias
 * is 1 if the text comes from an alias. The alias of an option of type LEVEL may also be an on/off
 * flag. */
int config_parse(const struct config_row *row, int is_alias, const char *text, uint64_t *out_value);

/* Whether the name is that of an option or an alias, or of another variable that begins with TCPX_
 * or UCCL_TCPX_ and that known scripts or plugins read. */
int config_known(const char *name, size_t len);
/* Returns the name of the option whose name or alias has the smallest edit distance to `name`; the
 * prefixes TCPX_ and UCCL_TCPX_ do not count. Returns "" if none is similar. */
const char *config_nearest(const char *name, size_t len);

#endif
