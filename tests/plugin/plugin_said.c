/* SPDX-License-Identifier: Apache-2.0 */
/* See plugin_said.h. */
#include "plugin_said.h"

#include <pthread.h>
#include <string.h>

#include "check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static char lines[1 << 18];
static size_t used;

static void keep(void *arg, enum tcpx_log_level level, const char *line)
{
	size_t bytes = strlen(line) + 1; /* with its end of line */

	(void)arg;
	(void)level;
	pthread_mutex_lock(&lock);
	CHECK_MSG(used + bytes < sizeof(lines), "no room for what is logged");
	memcpy(lines + used, line, bytes - 1);
	used += bytes;
	lines[used - 1] = '\n';
	pthread_cond_broadcast(&more);
	pthread_mutex_unlock(&lock);
}

void said_keep(enum tcpx_log_level level)
{
	tcpx_log_set(keep, NULL, level);
}

bool said_in(const char *text, const char *words)
{
	char want[512], *rest = NULL;

	CHECK(strlen(words) < sizeof(want));
	strcpy(want, words);
	for (char *word = strtok_r(want, "&", &rest); word; word = strtok_r(NULL, "&", &rest))
		if (!strstr(text, word))
			return false;
	return true;
}

/* With the lock. */
static unsigned count(const char *words)
{
	unsigned found = 0;
	char line[1024];

	for (size_t at = 0, bytes; at < used; at += bytes + 1) {
		bytes = strcspn(lines + at, "\n");
		snprintf(line, sizeof(line), "%.*s", (int)bytes, lines + at);
		found += said_in(line, words);
	}
	return found;
}

unsigned said_count(const char *words)
{
	unsigned found;

	pthread_mutex_lock(&lock);
	found = count(words);
	pthread_mutex_unlock(&lock);
	return found;
}

bool said(const char *words)
{
	return said_count(words) > 0;
}

void said_await(const char *words)
{
	pthread_mutex_lock(&lock);
	while (!count(words))
		pthread_cond_wait(&more, &lock);
	pthread_mutex_unlock(&lock);
}
