/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the recorder if TCPX_TRACE names a file. */
#include "trace/start.h"

#include <errno.h>
#include <string.h>

#include "base/config.h"
#include "base/text.h"
#include "trace/context.h"
#include "trace/device.h"

int trace_start(char *why, size_t cap)
{
	struct trace_recorder_opts opts = {
		.path = config_text(CONFIG_TRACE),
		.ring_records = 1,
		.context = trace_context_write,
	};
	/* 1 if the recorder could not be opened; there is no second attempt */
	static _Atomic int failed;
	int err = errno, rc;

	if (atomic_load_explicit(&trace_recorder_on, memory_order_relaxed))
		return 1;
	if (atomic_load_explicit(&failed, memory_order_relaxed)) {
		text_format(why, cap, "%s cannot be written", opts.path);
		return 0;
	}
	if (!*opts.path) {
		text_format(why, cap, "TCPX_TRACE names no file");
		return 0;
	}
	while (opts.ring_records < config_u64(CONFIG_TRACE_RECORDS))
		opts.ring_records *= 2;
	trace_device_start();
	rc = trace_recorder_open(&opts);
	if (rc) {
		text_format(why, cap, "%s: %s", opts.path, strerror(errno));
		atomic_store_explicit(&failed, 1, memory_order_relaxed);
	}
	errno = err;
	if (rc)
		return 0;
	if (atomic_load_explicit(&trace_recorder_on, memory_order_relaxed))
		return 1;
	text_format(why, cap, "the trace of this process has ended");
	return 0;
}
