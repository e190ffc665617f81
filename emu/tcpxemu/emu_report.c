/* SPDX-License-Identifier: Apache-2.0 */
/* The log, and the violations: counted, told, and fatal where they end the real one's process. */
#include "emu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOLD_MAX 8 /* of a code: who does it wrong does it often */

static _Atomic(emu_logger) log_to;
static _Atomic uint64_t counts[TCPXEMU_VIOLATION_COUNT];

static const struct {
	const char *name;
	int fatal;
} violations[] = {
#define VIOLATION_ROW(id, name, fatal, meaning) [TCPXEMU_##id] = {name, fatal},
	TCPXEMU_VIOLATIONS(VIOLATION_ROW)
#undef VIOLATION_ROW
};

void emu_log_to(emu_logger logger)
{
	atomic_store(&log_to, logger);
}

void emu_log(int level, const char *format, ...)
{
	emu_logger logger = atomic_load(&log_to);
	char text[512];
	va_list ap;

	if (!logger)
		return;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	logger(level, 0x10, "tcpxemu", 0, "%s", text);
}

int emu_violation(enum tcpxemu_violation code, const char *format, ...)
{
	char text[400], line[512];
	bool ends;
	int len;
	va_list ap;

	if (atomic_fetch_add(&counts[code], 1) >= TOLD_MAX && !violations[code].fatal)
		return EMU_INTERNAL;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	ends = violations[code].fatal && emu_config.fatal == EMU_FATAL_EXIT;
	len = snprintf(line, sizeof(line), "TCPXEMU VIOLATION %s: %s\n", violations[code].name,
		       text);
	/* As the original, whose last words are a warning for the logger, which may drop it; most
	 * begin with "fatal", those of a failed call of CUDA do not. A NULL logger hears none. */
	if (!ends || !atomic_load(&log_to))
		len = (int)write(2, line, (size_t)len);
	emu_log(2, "%sTCPXEMU VIOLATION %s: %s", ends && code != TCPXEMU_CUDA ? "fatal, " : "",
		violations[code].name, text);
	if (violations[code].fatal && emu_config.fatal == EMU_FATAL_ABORT)
		abort();
	if (violations[code].fatal && emu_config.fatal == EMU_FATAL_EXIT)
		exit(1);
	return EMU_INTERNAL;
}

uint64_t emu_violation_count(enum tcpxemu_violation code)
{
	return atomic_load(&counts[code]);
}

const char *emu_violation_name(enum tcpxemu_violation code)
{
	return violations[code].name;
}

uint64_t tcpxemu_violations(const char *name)
{
	uint64_t sum = 0;
	bool known = !name;

	for (int i = 0; i < TCPXEMU_VIOLATION_COUNT; i++) {
		if (!name || !strcmp(name, violations[i].name)) {
			sum += atomic_load(&counts[i]);
			known = true;
		}
	}
	return known ? sum : UINT64_MAX;
}
