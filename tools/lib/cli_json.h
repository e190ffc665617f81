/* SPDX-License-Identifier: Apache-2.0 */
/* JSON documents by jansson; without it every --json is refused. */
#ifndef TOOLS_CLI_JSON_H
#define TOOLS_CLI_JSON_H

#include <stdint.h>
#include <stdio.h>

struct cli_json;

int cli_json_available(void);

/* A document: an object. NULL without memory or without jansson. */
struct cli_json *cli_json_new(void);
void cli_json_free(struct cli_json *document);

/* Members. key NULL appends to an array. Lack of memory is remembered and told by the write.
 * Returned ones belong to their parent. */
struct cli_json *cli_json_object(struct cli_json *parent, const char *key);
struct cli_json *cli_json_array(struct cli_json *parent, const char *key);
void cli_json_text(struct cli_json *parent, const char *key, const char *text);
void cli_json_integer(struct cli_json *parent, const char *key, uint64_t value);
void cli_json_real(struct cli_json *parent, const char *key, double value);
void cli_json_bool(struct cli_json *parent, const char *key, int value);
void cli_json_null(struct cli_json *parent, const char *key);

/* A document that a run of the tool has written; NULL: it is none. */
struct cli_json *cli_json_read(FILE *in);

/* Of documents that are read: the member key of the document goes to each entry of the array that
 * has none; members of the entries of an array grow; an array gets the entries of another one's; a
 * member is taken over, or goes where there is none. */
void cli_json_spread(struct cli_json *document, const char *key, const char *array);
void cli_json_raise(struct cli_json *document, const char *array, const char *key, uint64_t by);
void cli_json_extend(struct cli_json *document, struct cli_json *more, const char *array);
void cli_json_take(struct cli_json *document, struct cli_json *more, const char *key);

/* The file to write to, "-" is stdout. NULL after a line on stderr. */
FILE *cli_json_open(const char *path);

/* Writes the document to what cli_json_open() gave for that path, and closes it. 0; -1 after a line
 * on stderr; of stdout cli_finish() says it. */
int cli_json_write(struct cli_json *document, FILE *out, const char *path);

/* CLI_USAGE after a line on stderr when this build has no JSON, else 0. */
int cli_json_check(void);

#endif
