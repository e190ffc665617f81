/* SPDX-License-Identifier: Apache-2.0 */
/* Public calls of include/tcpx/log.h. */
#include <tcpx/log.h>

#include "base/error.h"

void tcpx_log_set(tcpx_log_fn fn, void *arg, enum tcpx_log_level level)
{
	log_sink_set(fn, arg, level);
}

void tcpx_log_write(enum tcpx_log_level level, const char *line)
{
	if (line)
		log_write(level, "%s", line);
}

const char *tcpx_status_text(tcpx_status status)
{
	return error_status_text(status);
}

const char *tcpx_status_name(tcpx_status status)
{
	return error_status_name(status);
}

const char *tcpx_status_next(tcpx_status status)
{
	return error_status_next(status);
}

const tcpx_error *tcpx_last_error(void)
{
	return error_last();
}
