/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that the library logs: kept, looked through, waited for. Of one process. */
#ifndef PLUGIN_SAID_H
#define PLUGIN_SAID_H

#include <stdbool.h>

#include <tcpx/tcpx.h>

/* From here on; what it has no room for ends the case. */
void said_keep(enum tcpx_log_level level);

/* How many lines have all of the words, which '&' separates. */
unsigned said_count(const char *words);
bool said(const char *words);
void said_await(const char *words); /* the hang guard ends it */

/* Whether text has all of the words. */
bool said_in(const char *text, const char *words);

#endif
