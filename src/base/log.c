/* SPDX-License-Identifier: Apache-2.0 */
/* The log. Each call writes one line, unless the level or log_only() keeps it out: either to stderr
 * in one write() or to the function that the application has set. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/law.h"
#include "base/text.h"

#define LOG_LINE_MAX 1024
#define LOG_WINDOW_NS (10 * CLOCK_S_NS)
/* value of log_level until a level is set; if none is set, the first log line sets it from the
 * options */
#define LOG_LEVEL_UNSET 99

_Atomic int log_level = LOG_LEVEL_UNSET;

static pthread_rwlock_t sink_lock = PTHREAD_RWLOCK_INITIALIZER; /* guards sink_fn, sink_arg */
static tcpx_log_fn sink_fn;
static void *sink_arg;
static bool sink_was_set; /* whether log_sink_set() was called; guarded by sink_lock */
static bool (*_Atomic filter)(const char *line); /* set by log_filter(); NULL: all are logged */
static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER; /* guards every log_limit */

static const char *const level_names[] = {"ERROR", "WARN", "INFO", "DEBUG", "TRACE"};

void log_level_default(int level)
{
	int unset = LOG_LEVEL_UNSET;

	atomic_compare_exchange_strong(&log_level, &unset, level);
}

void log_level_set(int level)
{
	atomic_store(&log_level, level);
}

void log_sink_set(tcpx_log_fn fn, void *arg, enum tcpx_log_level level)
{
	pthread_rwlock_wrlock(&sink_lock);
	sink_fn = fn;
	sink_arg = arg;
	log_level = (int)level;
	sink_was_set = true;
	pthread_rwlock_unlock(&sink_lock);
}

void log_level_atleast(int level)
{
	pthread_rwlock_rdlock(&sink_lock);
	if (!sink_was_set && config_value(CONFIG_LOG)->source == CONFIG_DEFAULT) {
		log_level_default((int)config_u64(CONFIG_LOG));
		if (log_level < level)
			log_level_set(level);
	}
	pthread_rwlock_unlock(&sink_lock);
}

void log_filter(bool (*shown)(const char *line))
{
	atomic_store(&filter, shown);
}

bool log_sink_is_set(void)
{
	bool set;

	pthread_rwlock_rdlock(&sink_lock);
	set = sink_fn;
	pthread_rwlock_unlock(&sink_lock);
	return set;
}

/* Replaces control characters by '?'. The name of a peer or file must neither break a line nor send
 * an escape sequence to a terminal. */
static void clean_text(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

void log_write(enum tcpx_log_level level, const char *format, ...)
{
	char line[LOG_LINE_MAX];
	int saved = errno, head, len;
	unsigned name = (unsigned)level;
	bool (*shown)(const char *line);
	va_list args;

	if (level <= TCPX_LOG_INFO)
		law_free("the log");
	if (log_level == LOG_LEVEL_UNSET)
		log_level_default((int)config_u64(CONFIG_LOG));
	if ((int)level > log_level)
		goto out;
	if (name >= sizeof(level_names) / sizeof(level_names[0]))
		name = TCPX_LOG_TRACE;
	head = snprintf(line, sizeof(line), "tcpx: %s ", level_names[name]);
	va_start(args, format);
	text_vformat(line + head, sizeof(line) - 1 - (size_t)head, format, args);
	va_end(args);
	clean_text(line + head);
	shown = atomic_load(&filter);
	if (shown && level > TCPX_LOG_ERROR && !shown(line + head))
		goto out;

	pthread_rwlock_rdlock(&sink_lock);
	if (sink_fn) {
		sink_fn(sink_arg, level, line + head);
	} else {
		len = (int)strlen(line);
		line[len++] = '\n';
		len = (int)write(STDERR_FILENO, line, (size_t)len); /* a failure is ignored */
	}
	pthread_rwlock_unlock(&sink_lock);
out:
	errno = saved;
}

int log_allow(struct log_limit *limit, unsigned burst)
{
	int64_t now = clock_now_ns();
	unsigned dropped = 0;
	int allowed;

	pthread_mutex_lock(&limit_lock);
	if (!limit->window_ns || now - limit->window_ns >= LOG_WINDOW_NS) {
		limit->window_ns = now;
		limit->count = 0;
		dropped = limit->dropped;
		limit->dropped = 0;
	}
	allowed = limit->count < burst;
	if (allowed)
		limit->count++;
	else
		limit->dropped++;
	pthread_mutex_unlock(&limit_lock);
	if (dropped)
		LOG_WARN("%u lines like the next one were left out", dropped);
	return allowed;
}
