/* SPDX-License-Identifier: Apache-2.0 */
/* The functions to which plugins log. They filter lines as NCCL does, write them to the library's
 * log, and keep the last warning of each plugin. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "plugin/plugin_log.h"
#include "plugin/priv.h"

/* most lines of an image that are logged in 10 s, besides those for which last_words() is true */
#define LOG_BURST 100

static const struct {
	const char *name;
	unsigned long bit;
} subsystems[] = {
	{"INIT", NCCLNET_SUB_INIT},
	{"COLL", NCCLNET_SUB_COLL},
	{"P2P", NCCLNET_SUB_P2P},
	{"SHM", NCCLNET_SUB_SHM},
	{"NET", NCCLNET_SUB_NET},
	{"GRAPH", NCCLNET_SUB_GRAPH},
	{"TUNING", NCCLNET_SUB_TUNING},
	{"ENV", NCCLNET_SUB_ENV},
	{"ALLOC", NCCLNET_SUB_ALLOC},
	{"CALL", NCCLNET_SUB_CALL},
	{"PROXY", NCCLNET_SUB_PROXY},
	{"NVLS", NCCLNET_SUB_NVLS},
	{"BOOTSTRAP", NCCLNET_SUB_BOOTSTRAP},
	{"REG", NCCLNET_SUB_REG},
	{"PROFILE", NCCLNET_SUB_PROFILE},
	{"RAS", NCCLNET_SUB_RAS},
	{"ALL", ~0ul},
};

static const struct {
	const char *name;
	enum tcpx_log_level ours;
} levels[] = {
	[NCCLNET_LOG_NONE] = {"NONE", TCPX_LOG_DEBUG},
	[NCCLNET_LOG_VERSION] = {"VERSION", TCPX_LOG_INFO},
	[NCCLNET_LOG_WARN] = {"WARN", TCPX_LOG_WARN},
	[NCCLNET_LOG_INFO] = {"INFO", TCPX_LOG_INFO},
	[NCCLNET_LOG_ABORT] = {"ABORT", TCPX_LOG_ERROR},
	[NCCLNET_LOG_TRACE] = {"TRACE", TCPX_LOG_TRACE},
};

/* images[i] receives the lines of logger i. It is set before the plugin gets the logger. */
static struct net_plugin_log *_Atomic images[NET_PLUGIN_IMAGES];
static struct net_plugin_filter filter;
static pthread_once_t filter_once = PTHREAD_ONCE_INIT;

static unsigned long subsystem_bit(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(subsystems) / sizeof(subsystems[0]); i++)
		if (strlen(subsystems[i].name) == len &&
		    !strncasecmp(subsystems[i].name, name, len))
			return subsystems[i].bit;
	return 0;
}

struct net_plugin_filter net_plugin_filter_parse(const char *debug, const char *subsys)
{
	struct net_plugin_filter out = {NCCLNET_LOG_NONE,
					NCCLNET_SUB_INIT | NCCLNET_SUB_BOOTSTRAP | NCCLNET_SUB_ENV};
	int without = 0;

	for (size_t i = 0; debug && i < sizeof(levels) / sizeof(levels[0]); i++)
		if (!strcasecmp(debug, levels[i].name))
			out.level = (int)i;
	if (!subsys)
		return out;
	if (*subsys == '^') {
		without = 1;
		subsys++;
	}
	out.subsystems = without ? ~0ul : 0;
	while (*subsys) {
		size_t len = strcspn(subsys, ",");
		unsigned long bit = subsystem_bit(subsys, len);

		out.subsystems = without ? out.subsystems & ~bit : out.subsystems | bit;
		subsys += len + (subsys[len] == ',');
	}
	return out;
}

int net_plugin_filter_passes(const struct net_plugin_filter *is, int level, unsigned long flags)
{
	return level <= is->level && (flags & is->subsystems);
}

static void filter_read(void)
{
	filter = net_plugin_filter_parse(getenv("NCCL_DEBUG"), getenv("NCCL_DEBUG_SUBSYS"));
	/* Lines that pass the filter should also pass the library's log level. The level VERSION
	 * alone does not raise it. */
	if (filter.level >= NCCLNET_LOG_TRACE)
		log_level_atleast(TCPX_LOG_TRACE);
	else if (filter.level >= NCCLNET_LOG_INFO)
		log_level_atleast(TCPX_LOG_INFO);
	else if (filter.level == NCCLNET_LOG_WARN)
		log_level_atleast(TCPX_LOG_WARN);
}

static void keep_warning(struct net_plugin_log *log, const char *line, bool shown)
{
	pthread_mutex_lock(&log->lock);
	log->warnings++;
	log->unshown = !shown;
	text_format(log->last, sizeof(log->last), "%s", line);
	pthread_mutex_unlock(&log->lock);
}

/* Whether the line is of a kind that plugins log before they end the process: a line of level
 * ABORT, or a warning that begins with "fatal". Such lines are shown whatever NCCL_DEBUG is. */
static bool last_words(int level, const char *text)
{
	static const char mark[] = "fatal";

	return level == NCCLNET_LOG_ABORT ||
	       (level == NCCLNET_LOG_WARN && !strncasecmp(text, mark, sizeof(mark) - 1));
}

/* Handles one line of the image whose logger has the index `slot`: filters the line and logs it.
 * Keeps a warning for error texts, even if the warning is not logged. */
static void take_line(unsigned slot, int level, unsigned long flags, const char *file, int line,
		      const char *format, va_list args)
{
	struct net_plugin_log *log = atomic_load_explicit(&images[slot], memory_order_acquire);
	bool passes = net_plugin_filter_passes(&filter, level, flags), last;
	int saved = errno;
	enum tcpx_log_level ours;
	char text[512];
	size_t len;

	if (!log || (!passes && level != NCCLNET_LOG_WARN && level != NCCLNET_LOG_ABORT) || !format)
		return;
	len = text_vformat(text, sizeof(text), format, args);
	while (len && (text[len - 1] == '\n' || text[len - 1] == ' '))
		text[--len] = '\0';
	last = last_words(level, text);
	passes |= last;
	if (level == NCCLNET_LOG_WARN)
		keep_warning(log, text, passes);
	ours = level >= 0 && level <= NCCLNET_LOG_TRACE ? levels[level].ours : TCPX_LOG_DEBUG;
	if (passes && (int)ours <= log_level && (last || log_allow(&log->limit, LOG_BURST)))
		log_write(ours, "%s: %s:%d %s", log->file, file ? file : "?", line, text);
	errno = saved;
}

/* A logger callback gets no context argument, so each image has a function of its own. */
#define LOGGER(n)                                                                                  \
	__attribute__((format(printf, 5, 6))) static void logger_##n(                              \
		int level, unsigned long flags, const char *file, int line, const char *format,    \
		...)                                                                               \
	{                                                                                          \
		va_list args;                                                                      \
		va_start(args, format);                                                            \
		take_line(n, level, flags, file, line, format, args);                              \
		va_end(args);                                                                      \
	}
#define LOGGER_NAME(n) logger_##n,
/* The numbers are octal, so that pasted digits form consecutive numbers: 000 ... 037. */
#define LOGGERS_8(X, d)                                                                            \
	X(0##d##0) X(0##d##1) X(0##d##2) X(0##d##3) X(0##d##4) X(0##d##5) X(0##d##6) X(0##d##7)
#define LOGGERS(X) LOGGERS_8(X, 0) LOGGERS_8(X, 1) LOGGERS_8(X, 2) LOGGERS_8(X, 3)
LOGGERS(LOGGER)
static const ncclnet_logger loggers[] = {LOGGERS(LOGGER_NAME)};
_Static_assert(sizeof(loggers) / sizeof(loggers[0]) == NET_PLUGIN_IMAGES, "a logger per image");

ncclnet_logger net_plugin_logger(unsigned slot, struct net_plugin_log *log)
{
	pthread_once(&filter_once, filter_read);
	atomic_store_explicit(&images[slot], log, memory_order_release);
	return loggers[slot];
}

/* Runs when the process ends. Logs the last warning of each plugin in use, if NCCL_DEBUG suppressed
 * it: the plugin may have ended the process, and the warning may say why. Does nothing if the
 * application has set a log sink, which may no longer be usable. */
__attribute__((destructor)) static void say_last_words(void)
{
	for (unsigned i = 0; i < NET_PLUGIN_IMAGES && !log_sink_is_set(); i++) {
		struct net_plugin_log *log = atomic_load_explicit(&images[i], memory_order_acquire);
		char last[sizeof(log->last)] = "";

		if (!log || !atomic_load(&LIST_ENTRY(log, struct net_plugin, log)->refs) ||
		    pthread_mutex_trylock(&log->lock))
			continue;
		if (log->unshown)
			memcpy(last, log->last, sizeof(last));
		pthread_mutex_unlock(&log->lock);
		if (*last)
			LOG_WARN("the process ends with %s in use; its last warning was: %s",
				 log->file, last);
	}
}

unsigned net_plugin_warnings(struct net_plugin *plugin)
{
	unsigned count;

	pthread_mutex_lock(&plugin->log.lock);
	count = plugin->log.warnings;
	pthread_mutex_unlock(&plugin->log.lock);
	return count;
}

void net_plugin_said(struct net_plugin *plugin, unsigned since, char *out, size_t bytes)
{
	out[0] = '\0';
	pthread_mutex_lock(&plugin->log.lock);
	if (plugin->log.warnings != since)
		text_format(out, bytes, "; it says: %s", plugin->log.last);
	pthread_mutex_unlock(&plugin->log.lock);
}
