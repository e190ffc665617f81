/* SPDX-License-Identifier: Apache-2.0 */
/* Output of the tool: results on stdout, errors and a live line on stderr; exit codes; Ctrl-C. */
#ifndef TOOLS_CLI_OUTPUT_H
#define TOOLS_CLI_OUTPUT_H

#include <signal.h>
#include <stdio.h>

#include <tcpx/types.h>

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,
	CLI_FOUND = 3, /* doctor: a check failed */
	CLI_WRONG_DATA = 4,
	CLI_TIMED_OUT = 124,
};

extern volatile sig_atomic_t cli_interrupted; /* set by SIGINT and SIGTERM */

/* The action of the first signal: the next one takes its default action. */
void cli_interrupt(void);

/* Installs handlers for SIGINT and SIGTERM (no SA_RESTART), ignores SIGPIPE, buffers stdout until a
 * flush; name is printed before errors. */
void cli_output_init(const char *name);

/* Prints a line on stderr: "tcpx perf: ...". cli_usage() returns CLI_USAGE. */
void cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last line without the name before it; "" if there was none. */
const char *cli_error_text(void);

/* Prints the text with the cause and the next step of the library's last error. Returns the exit
 * code: CLI_TIMED_OUT for ERR_TIMED_OUT, else CLI_FAILED. */
int cli_fail(tcpx_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line that overwrites itself, on a terminal only; "" clears it. */
void cli_live(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Escape sequence of a colour on stdout, "" if colours are off (no terminal, NO_COLOR). */
const char *cli_red(void);
const char *cli_green(void);
const char *cli_plain(void);

/* Flushes a stream. -1 if it is stdout and a write failed, now or before. */
int cli_flush(FILE *out);

/* Flushes stdout; CLI_FAILED with a line if it could not be written (without a line if its reader
 * is gone), else code. */
int cli_finish(int code);

/* For a drawing with a white background, after its <svg> tag: on a dark page it is shown with
 * dark and light exchanged, and with the same hues. */
#define CLI_SVG_DARK                                                                               \
	"<style>@media (prefers-color-scheme: dark) "                                              \
	"{ svg > * { filter: invert(0.9) hue-rotate(180deg) } }</style>\n"
/* The same for the page around it. */
#define CLI_HTML_DARK ":root{color-scheme:light dark}"

#endif
