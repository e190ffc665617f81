/* SPDX-License-Identifier: Apache-2.0 */
/* The thread's last error and the texts of the status codes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

static _Thread_local tcpx_error last_error = {.sz = sizeof(last_error)};

const char *error_status_text(tcpx_status status)
{
	switch ((int)status) {
#define STATUS_CASE(name, value, text, next)                                                       \
	case value:                                                                                \
		return text;
		TCPX_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
	}
	return "unknown status";
}

const char *error_status_name(tcpx_status status)
{
	switch ((int)status) {
#define STATUS_CASE(name, value, text, next)                                                       \
	case value:                                                                                \
		return #name;
		TCPX_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
	}
	return "unknown status";
}

const char *error_status_next(tcpx_status status)
{
	switch ((int)status) {
#define STATUS_CASE(name, value, text, next)                                                       \
	case value:                                                                                \
		return next;
		TCPX_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
	}
	return "";
}

static void fill_error(tcpx_error *error, tcpx_status status, int err, const char *what,
		       va_list args)
{
	char text[sizeof(error->what)]; /* separate from *error, because an argument may point into
					 * *error */

	text_vformat(text, sizeof(text), what, args);
	memset(error, 0, sizeof(*error));
	error->sz = sizeof(*error);
	error->status = status;
	error->system_errno = err;
	memcpy(error->what, text, sizeof(error->what));
	text_format(error->next, sizeof(error->next), "%s", error_status_next(status));
}

/* strerrordesc_np() exists since glibc 2.32. Tests define TCPX_OLD_GLIBC to compile the branch for
 * older C libraries. */
#if defined(__GLIBC_PREREQ) && !defined(TCPX_OLD_GLIBC)
#define HAVE_STRERRORDESC __GLIBC_PREREQ(2, 32)
#else
#define HAVE_STRERRORDESC 0
#endif

const char *error_errno_text(int err)
{
#if HAVE_STRERRORDESC
	const char *text = strerrordesc_np(err);

	return text ? text : "unknown errno";
#else
	static _Thread_local char buf[64];

	return strerror_r(err, buf, sizeof(buf));
#endif
}

tcpx_status error_set(tcpx_status status, int err, const char *what, ...)
{
	int saved = errno;
	va_list args;

	va_start(args, what);
	fill_error(&last_error, status, err, what, args);
	va_end(args);
	if (err)
		LOG_DEBUG("%s: %s (%s)", error_status_name(status), last_error.what,
			  error_errno_text(err));
	else
		LOG_DEBUG("%s: %s", error_status_name(status), last_error.what);
	errno = saved;
	return status;
}

tcpx_status error_next(const char *next, ...)
{
	char text[sizeof(last_error.next)];
	int saved = errno;
	va_list args;

	va_start(args, next);
	text_vformat(text, sizeof(text), next, args);
	memcpy(last_error.next, text, sizeof(text));
	va_end(args);
	errno = saved;
	return last_error.status;
}

void error_fill(tcpx_error *error, tcpx_status status, int err, const char *what, ...)
{
	int saved = errno;
	va_list args;

	va_start(args, what);
	fill_error(error, status, err, what, args);
	va_end(args);
	errno = saved;
}

tcpx_status error_raise(const tcpx_error *error)
{
	if (error != &last_error)
		last_error = *error;
	last_error.sz = sizeof(last_error);
	return last_error.status;
}

const tcpx_error *error_last(void)
{
	return &last_error;
}
