/* SPDX-License-Identifier: Apache-2.0 */
/* The counter of packets in GPU memory, before and after a run. */
#include "cli_devmem.h"

#include <stdio.h>
#include <string.h>

#include <tcpx/plugin.h>

#include "base/config.h"
#include "sys/ethtool.h"

#define TIMEOUT_NS 30000000000

static int read_counter(const char *nic, uint64_t *out)
{
	const char *source = config_text(CONFIG_DEVMEM_STATS);

	return sys_ethtool_statistic(nic, SYS_ETHTOOL_DEVMEM, *source ? source : NULL, out) ==
	       TCPX_OK;
}

void cli_devmem_start(struct cli_devmem *devmem, const struct cli_plugin *plugin)
{
	const char *path = strcmp(plugin->file, "default") ? plugin->file : NULL;
	tcpx_plugin_device device = {.sz = sizeof(device)};

	devmem->count = 0;
	for (unsigned i = 0; i < CLI_DEVMEM_NICS; i++) {
		if (tcpx_plugin_device_get(path, TIMEOUT_NS, i, &device) != TCPX_OK)
			break;
		snprintf(devmem->nics[i].name, sizeof(devmem->nics[i].name), "%s", device.name);
		devmem->nics[i].known = read_counter(device.name, &devmem->nics[i].before);
		devmem->count++;
	}
}

enum cli_devmem_verdict cli_devmem_end(struct cli_devmem *devmem, char *text, size_t cap)
{
	enum cli_devmem_verdict verdict = CLI_DEVMEM_UNKNOWN;
	uint64_t after;

	for (unsigned i = 0; i < devmem->count; i++) {
		devmem->nics[i].known =
			devmem->nics[i].known && read_counter(devmem->nics[i].name, &after);
		if (!devmem->nics[i].known)
			continue;
		devmem->nics[i].rise = after - devmem->nics[i].before;
		if (devmem->nics[i].rise)
			verdict = CLI_DEVMEM_SOME;
		else if (verdict == CLI_DEVMEM_UNKNOWN)
			verdict = CLI_DEVMEM_NONE;
	}
	cli_devmem_text(devmem, text, cap);
	return verdict;
}

void cli_devmem_text(const struct cli_devmem *devmem, char *text, size_t cap)
{
	size_t used = 0;

	snprintf(text, cap, "not available");
	for (unsigned i = 0; i < devmem->count && used < cap; i++)
		if (devmem->nics[i].known)
			used += (size_t)snprintf(text + used, cap - used, "%s%s +%llu",
						 used ? "  " : "", devmem->nics[i].name,
						 (unsigned long long)devmem->nics[i].rise);
}
