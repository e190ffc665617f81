/* SPDX-License-Identifier: Apache-2.0 */
/* What the TCPX emulator has counted in this process, and the wait until our end of it is over. */
#ifndef SUPPORT_EMULATOR_H
#define SUPPORT_EMULATOR_H

#include <dlfcn.h>
#include <stdbool.h>

#include "base/clock.h"
#include "check.h"
#include "plugin/image.h"
#include "tcpxemu/tcpxemu.h"

/* Of the copy that is loaded. */
struct emulator {
	const char *path;
	void (*stats)(struct tcpxemu_stats *out);
	void (*stats_wait)(struct tcpxemu_stats *stats);
	uint64_t (*violations)(const char *name);
};

/* False: it is not loaded here, or another plugin is. */
CHECK_UNUSED static bool emulator_find(const char *path, struct emulator *out)
{
	void *handle = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
	void *stats, *stats_wait, *violations;

	if (!handle)
		return false;
	stats = dlsym(handle, "tcpxemu_stats");
	stats_wait = dlsym(handle, "tcpxemu_stats_wait");
	violations = dlsym(handle, "tcpxemu_violations");
	dlclose(handle);
	out->path = path;
	memcpy(&out->stats, &stats, sizeof(stats));
	memcpy(&out->stats_wait, &stats_wait, sizeof(stats_wait));
	memcpy(&out->violations, &violations, sizeof(violations));
	return stats && stats_wait && violations;
}

/* Behind the last session's close: threads of their own close comms still. Those that were given up
 * between two calls of their setup stay as they are. The hang guard ends it. */
CHECK_UNUSED static struct tcpxemu_stats emulator_closed(const struct emulator *emulator)
{
	struct tcpxemu_stats stats;
	struct net_plugin_info info;
	struct net_plugin *plugin;
	struct net_plugin_opts load = {.path = emulator->path, .timeout_ns = 60 * CLOCK_S_NS};

	CHECK_EQ(net_plugin_get(&load, &plugin), TCPX_OK);
	net_plugin_wait(plugin, 0); /* before that it is not known how many those are */
	net_plugin_describe(plugin, &info);
	net_plugin_put(plugin);
	emulator->stats(&stats);
	while (stats.comms_open > info.leaked)
		emulator->stats_wait(&stats);
	return stats;
}

#endif
