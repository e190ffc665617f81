/* SPDX-License-Identifier: Apache-2.0 */
/* Hides warnings of the library whose cause perf prints itself. */
#include "perf_quiet.h"

#include <string.h>

#include "base/config.h"
#include "base/error.h"

static int begins(const char *text, const char *beginning)
{
	return !strncmp(text, beginning, strlen(beginning));
}

static bool shown_connecting(const char *line)
{
	return begins(line, "interface ");
}

static int by_default(void)
{
	return config_value(CONFIG_LOG)->source == CONFIG_DEFAULT;
}

void perf_quiet_connecting(int by_plugin)
{
	if (by_default() && !by_plugin)
		log_filter(shown_connecting);
}

void perf_quiet_end(void)
{
	log_filter(NULL);
}
