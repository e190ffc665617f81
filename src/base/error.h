/* SPDX-License-Identifier: Apache-2.0 */
/* The thread's last error and the log. The function that detects a failure sets and logs the error;
 * its callers pass the status on. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

#include "base/law.h"

#include <tcpx/log.h>
#include <tcpx/types.h>

/* Sets and logs the thread's last error, and returns `status`. `what` says what failed, with names
 * and values. `err` is the errno of the failed call, or 0. The advice to the user (tcpx_error.next)
 * becomes the usual one for the status; error_next() can replace it. Keeps errno. Arguments may
 * point into the last error. */
tcpx_status error_set(tcpx_status status, int err, const char *what, ...)
	__attribute__((format(printf, 3, 4)));

/* Replaces the advice (tcpx_error.next) of the last error; returns the status of that error. */
tcpx_status error_next(const char *next, ...) __attribute__((format(printf, 1, 2)));

/* Fills *error as error_set() fills the last error. Does not log, and leaves the last error
 * unchanged. */
void error_fill(tcpx_error *error, tcpx_status status, int err, const char *what, ...)
	__attribute__((format(printf, 4, 5)));

/* Copies a stored error to the thread's last error. Returns its status. */
tcpx_status error_raise(const tcpx_error *error);

/* Returns the text of an errno, never NULL. It is valid until the thread calls this function
 * again. */
const char *error_errno_text(int err);

/* Returns the thread's last error, never NULL. */
const tcpx_error *error_last(void);

/* Return the text, the name and the usual advice of a status, never NULL. */
const char *error_status_text(tcpx_status status);
const char *error_status_name(tcpx_status status);
const char *error_status_next(tcpx_status status);

/* the level in force, enum tcpx_log_level; above all levels until one is set */
extern _Atomic int log_level;

void log_write(enum tcpx_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Sets the level and the function that receives log lines. If `fn` is NULL, lines are written to
 * stderr. After the return the former function is no longer called. */
void log_sink_set(tcpx_log_fn fn, void *arg, enum tcpx_log_level level);

/* Whether the application has set a function that receives log lines. */
bool log_sink_is_set(void);

/* log_level_default sets the level, which the caller took from the options, unless a level was set
 * before. log_level_set always sets it. */
void log_level_default(int level);
void log_level_set(int level);
/* Suppresses all lines except errors and lines for which `shown` returns true. Any thread may call
 * `shown`. NULL ends the suppression. */
void log_filter(bool (*shown)(const char *line));

/* Sets the level to `level` if it is lower, unless the options or log_sink_set() have set it. */
void log_level_atleast(int level);

#define LOG(level, ...)                                                                            \
	do {                                                                                       \
		if ((int)(level) <= TCPX_LOG_INFO)                                                 \
			law_free("the log"); /* also if the line is not written */                 \
		if ((int)(level) <= log_level)                                                     \
			log_write((level), __VA_ARGS__);                                           \
	} while (0)
#define LOG_ERROR(...) LOG(TCPX_LOG_ERROR, __VA_ARGS__)
#define LOG_WARN(...) LOG(TCPX_LOG_WARN, __VA_ARGS__)
#define LOG_INFO(...) LOG(TCPX_LOG_INFO, __VA_ARGS__)
#define LOG_DEBUG(...) LOG(TCPX_LOG_DEBUG, __VA_ARGS__)

/* Limits the log lines of one place in the code to `burst` per 10 s. The number of suppressed lines
 * is logged at the first call after the 10 s. */
struct log_limit {
	int64_t window_ns;
	unsigned count, dropped;
};
int log_allow(struct log_limit *limit, unsigned burst); /* whether to write the line; any thread */

#endif
