/* SPDX-License-Identifier: Apache-2.0 */
/* Hides warnings of the library whose cause perf prints itself. */
#include "perf_quiet.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "cli_output.h"

#define LINE_MAX_BYTES 1024

/* The line that was held back, "": none. The library logs from threads of its own. */
static struct {
	pthread_mutex_t lock;
	char line[LINE_MAX_BYTES];
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int begins(const char *text, const char *beginning)
{
	return !strncmp(text, beginning, strlen(beginning));
}

static bool shown_connecting(const char *line)
{
	return begins(line, "interface ");
}

static bool shown_running(const char *line)
{
	if (!begins(line, "peer '") || !strstr(line, "(all channels ended)"))
		return true;
	pthread_mutex_lock(&held.lock);
	snprintf(held.line, sizeof(held.line), "%s", line);
	pthread_mutex_unlock(&held.lock);
	return false;
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

void perf_quiet_running(void)
{
	log_filter(by_default() ? shown_running : NULL);
}

void perf_quiet_end(const tcpx_error *error)
{
	char line[LINE_MAX_BYTES];

	log_filter(NULL);
	pthread_mutex_lock(&held.lock);
	memcpy(line, held.line, sizeof(line));
	*held.line = '\0';
	pthread_mutex_unlock(&held.lock);
	if (*line && !(error && *error->what && begins(line, error->what)))
		cli_error("%s", line);
}
