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
	TCPX_LOG_WARN = 1, /**< the default level if TCPX_LOG is not set */
	TCPX_LOG_INFO = 2,
	TCPX_LOG_DEBUG = 3,
	TCPX_LOG_TRACE = 4,
};

/** What failed, where, how far, and what to do next. A text that does not fit ends after a
 * whole word, with "...". */
typedef struct tcpx_error {
	size_t sz;	      /**< set by the caller; by the library in tcpx_last_error() */
	tcpx_status status;   /**< the code */
	int system_errno;     /**< errno of the system call that failed, 0 if none */
	uint64_t bytes_done;  /**< bytes applied before the failure, if a request failed */
	uint64_t bytes_total; /**< bytes of that request */
	char what[384];	      /**< what failed, with names and values */
	char next[160];	      /**< the next step */
} tcpx_error;

/** Receives one line without a newline. May be called on any thread of the library and within any
 * call of the program; must not call the library. */
typedef void (*tcpx_log_fn)(void *arg, enum tcpx_log_level level, const char *line);

/** Sets where the process's log lines go (NULL: stderr), and the highest level that is logged.
 * @threads any. */
TCPX_API void tcpx_log_set(tcpx_log_fn fn, void *arg, enum tcpx_log_level level);

/** Logs a line of the program as the library logs its own, unless `level` is above the highest
 * level that is logged. Control characters become '?'. @threads any. */
TCPX_API void tcpx_log_write(enum tcpx_log_level level, const char *line);

/** Text of a status, "unknown status" for any other value. Never NULL. @threads any. */
TCPX_API const char *tcpx_status_text(tcpx_status status);

/** Name of a status ("ERR_TIMED_OUT"). Never NULL. @threads any. */
TCPX_API const char *tcpx_status_name(tcpx_status status);

/** What a user can do about a status; "" if nothing. Never NULL. @threads any. */
TCPX_API const char *tcpx_status_next(tcpx_status status);

/**
 * Detail of the calling thread's last call that returned an error; valid until the thread's next
 * error. tcpx_request_wait() and tcpx_request_test() are such calls if they return the status of a
 * failed request. tcpx_request_error() and tcpx_peer_error() have the detail of any request or peer
 * that failed.
 * @return never NULL; its status is TCPX_OK if no call of the thread has failed; its sz is the size
 *         of the library's struct. @threads any, per thread.
 */
TCPX_API const tcpx_error *tcpx_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
