/* SPDX-License-Identifier: Apache-2.0 */
/* The thread's last error and the log. The function that detects a failure sets and logs the error;
 * its callers pass the status on. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

#include <tcpx/log.h>
#include <tcpx/types.h>

/* Sets the thread's last error and returns status. what: what failed, with names and values. err:
 * errno of the call, or 0. The advice to the user (tcpx_error.next) is that of the status unless
 * error_next() follows. Keeps errno. Arguments may point into the last error. */
tcpx_status error_set(tcpx_status status, int err, const char *what, ...)
	__attribute__((format(printf, 3, 4)));

/* Replaces the advice (tcpx_error.next) of the last error; returns the status of that error. */
tcpx_status error_next(const char *next, ...) __attribute__((format(printf, 1, 2)));

/* Fills *error as error_set() fills the last error, which stays unchanged. */
void error_fill(tcpx_error *error, tcpx_status status, int err, const char *what, ...)
	__attribute__((format(printf, 4, 5)));

/* Makes a stored error the thread's last one; returns its status. */
tcpx_status error_raise(const tcpx_error *error);

/* Text of an errno; never NULL. Valid until the next call of this thread. */
const char *error_errno_text(int err);

/* The thread's last error; never NULL. */
const tcpx_error *error_last(void);

/* Text, name and advice of a status; never NULL. */
const char *error_status_text(tcpx_status status);
const char *error_status_name(tcpx_status status);
const char *error_status_next(tcpx_status status);

extern _Atomic int log_level; /* enum tcpx_log_level in force */

void log_write(enum tcpx_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Sets the receiver of log lines (NULL: stderr) and the level. After the return the former receiver
 * is not called any more. */
void log_sink_set(tcpx_log_fn fn, void *arg, enum tcpx_log_level level);

/* Whether the application has set a receiver of log lines. */
bool log_sink_is_set(void);

/* Sets the level that the options give, unless the level was set before. */
void log_level_default(int level);
void log_level_set(int level);
/* Logs only errors and lines that begin with this text; NULL: all lines again. */
void log_only(const char *beginning);

/* Raises the level to at least this one, unless the options or log_sink_set() set it. */
void log_level_atleast(int level);

#define LOG(level, ...)                                                                            \
	do {                                                                                       \
		if ((int)(level) <= log_level)                                                     \
			log_write((level), __VA_ARGS__);                                           \
	} while (0)
#define LOG_ERROR(...) LOG(TCPX_LOG_ERROR, __VA_ARGS__)
#define LOG_WARN(...) LOG(TCPX_LOG_WARN, __VA_ARGS__)
#define LOG_INFO(...) LOG(TCPX_LOG_INFO, __VA_ARGS__)
#define LOG_DEBUG(...) LOG(TCPX_LOG_DEBUG, __VA_ARGS__)

/* Limits the lines of one place in the code to `burst` per 10 s. The number of lines left out is
 * logged before the next one that is allowed. */
struct log_limit {
	int64_t window_ns;
	unsigned count, dropped;
};
int log_allow(struct log_limit *limit, unsigned burst); /* any thread; 1: write the line */

#endif
