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

/* Add members. key NULL appends to an array. A lack of memory is remembered and reported by the
 * write. Returned objects belong to their parent. */
struct cli_json *cli_json_object(struct cli_json *parent, const char *key);
struct cli_json *cli_json_array(struct cli_json *parent, const char *key);
void cli_json_text(struct cli_json *parent, const char *key, const char *text);
void cli_json_integer(struct cli_json *parent, const char *key, uint64_t value);
void cli_json_real(struct cli_json *parent, const char *key, double value);
void cli_json_bool(struct cli_json *parent, const char *key, int value);
void cli_json_null(struct cli_json *parent, const char *key);

/* Reads a document that the tool has written; NULL: malformed. */
struct cli_json *cli_json_read(FILE *in);

/* For documents that were read. spread: copies the member key of the document into each entry of
 * the array that lacks it. raise: increments a member of all entries. extend: appends the entries
 * of another array. take: copies a member of another document, or deletes it if it is missing
 * there. */
void cli_json_spread(struct cli_json *document, const char *key, const char *array);
void cli_json_raise(struct cli_json *document, const char *array, const char *key, uint64_t by);
void cli_json_extend(struct cli_json *document, struct cli_json *more, const char *array);
void cli_json_take(struct cli_json *document, struct cli_json *more, const char *key);

/* Opens the output file, "-" is stdout. NULL after a line on stderr. */
FILE *cli_json_open(const char *path);

/* Writes the document to the file of cli_json_open() and closes it. 0, or -1 after a line on
 * stderr; errors of stdout are reported by cli_finish(). */
int cli_json_write(struct cli_json *document, FILE *out, const char *path);

/* CLI_USAGE after a line on stderr if this build has no JSON, else 0. */
int cli_json_check(void);

#endif
