/* SPDX-License-Identifier: Apache-2.0 */
/* Log callback, status texts and the thread's last error. */
#ifndef TCPX_LOG_H
#define TCPX_LOG_H

#include <tcpx/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tcpx_log_level {
	TCPX_LOG_ERROR = 0,
	TCPX_LOG_WARN = 1, /**< the default, or what TCPX_LOG says */
	TCPX_LOG_INFO = 2,
	TCPX_LOG_DEBUG = 3,
	TCPX_LOG_TRACE = 4,
};

/** What failed, where, how far, and what to do next. A text that does not fit ends after a
 * whole word, with "...". */
typedef struct tcpx_error {
	size_t sz;	     /**< set by the caller; by the library in tcpx_last_error() */
	tcpx_status status;  /**< the code */
	int system_errno;    /**< errno of the failing call, 0 if none */
	uint64_t bytes_done; /**< bytes applied before the failure, if a request failed */
	uint64_t bytes_total;
	char what[384]; /**< what failed, with names and values */
	char next[160]; /**< the next step */
} tcpx_error;

/** Receives one line without a newline. May be called from any thread of the library; must not
 * call the library. */
typedef void (*tcpx_log_fn)(void *arg, enum tcpx_log_level level, const char *line);

/** Sets the process-wide log sink; NULL returns to stderr. @threads any. */
TCPX_API void tcpx_log_set(tcpx_log_fn fn, void *arg, enum tcpx_log_level level);

/** One line through the library's log, as its own: to the sink, or stderr, from the level in force
 * on. What could end the line or steer a terminal is blanked. @threads any. */
TCPX_API void tcpx_log_write(enum tcpx_log_level level, const char *line);

/** Text of a status, "unknown status" for a value that is none. Never NULL. @threads any. */
TCPX_API const char *tcpx_status_text(tcpx_status status);

/** Name of a status ("ERR_TIMED_OUT"). Never NULL. @threads any. */
TCPX_API const char *tcpx_status_name(tcpx_status status);

/** What a user does next about a status; "" when nothing. Never NULL. @threads any. */
TCPX_API const char *tcpx_status_next(tcpx_status status);

/**
 * Detail of the calling thread's last call that returned an error; valid until its next error. That
 * tcpx_request_wait() or tcpx_request_test() returns how a request failed is such a call; other
 * failures of requests and peers are in tcpx_request_error() and tcpx_peer_error().
 * @return never NULL; status TCPX_OK when nothing failed yet; sz is the size that this library has.
 *         @threads any, per thread.
 */
TCPX_API const tcpx_error *tcpx_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
