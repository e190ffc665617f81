/* SPDX-License-Identifier: Apache-2.0 */
/* Public calls of include/tcpx/plugin.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tcpx/plugin.h>

#include "base/text.h"
#include "api/checks.h"
#include "engine/channel/comms_env.h"
#include "plugin/plugin.h"

_Static_assert(TCPX_PLUGIN_HOST == (int)NCCLNET_PTR_HOST &&
		       TCPX_PLUGIN_CUDA == (int)NCCLNET_PTR_CUDA &&
		       TCPX_PLUGIN_DMABUF == (int)NCCLNET_PTR_DMABUF,
	       "the bits for pointers are those of ncclNet");
_Static_assert(TCPX_PLUGIN_SETTINGS_MAX >= GPUDIRECT_SETTINGS_MAX &&
		       TCPX_PLUGIN_PROBLEMS_MAX >= GPUDIRECT_PROBLEMS_MAX,
	       "the array of a caller has room for all");

static tcpx_status plugin_open(const char *path, int64_t timeout_ns, struct net_plugin **out_plugin)
{
	if (timeout_ns <= 0)
		return error_set(TCPX_ERR_INVALID, 0, "plugin: timeout_ns = %lld is not positive",
				 (long long)timeout_ns);
	return net_plugin_get(&(struct net_plugin_opts){.path = path, .timeout_ns = timeout_ns},
			      out_plugin);
}

tcpx_status tcpx_plugin_query(const char *path, int64_t timeout_ns, tcpx_plugin_info *out_info)
{
	tcpx_plugin_info info = {.sz = sizeof(info)};
	struct net_plugin_info found;
	struct net_plugin *plugin;
	tcpx_status status;

	API_OUT(tcpx_plugin_info, out_info, consumes);
	status = plugin_open(path, timeout_ns, &plugin);
	if (status != TCPX_OK)
		return status;
	net_plugin_describe(plugin, &found);
	net_plugin_put(plugin);
	memcpy(info.resolved, found.resolved, sizeof(info.resolved));
	memcpy(info.name, found.name, sizeof(info.name));
	info.version = (uint32_t)found.version;
	info.versions = found.exported;
	info.devices = found.devices;
	info.consumes = found.has_consumed != 0;
	api_out_write(out_info, &info, sizeof(info));
	return TCPX_OK;
}

tcpx_status tcpx_plugin_device_get(const char *path, int64_t timeout_ns, uint32_t index,
				   tcpx_plugin_device *out_device)
{
	tcpx_plugin_device device = {.sz = sizeof(device)};
	const struct net_plugin_device *found;
	struct net_plugin *plugin;
	tcpx_status status;

	API_OUT(tcpx_plugin_device, out_device, message_max);
	status = plugin_open(path, timeout_ns, &plugin);
	if (status != TCPX_OK)
		return status;
	found = net_plugin_device(plugin, index);
	net_plugin_put(plugin);
	if (!found)
		return error_set(TCPX_ERR_RANGE, 0, "plugin has no device %u", index);
	memcpy(device.name, found->name, sizeof(device.name));
	memcpy(device.pci_path, found->pci_path, sizeof(device.pci_path));
	device.pointers = found->ptr_support;
	device.speed_mbps = found->speed_mbps;
	device.max_comms = found->max_comms > 0 ? (uint32_t)found->max_comms : 0;
	device.unpack = found->device_type == NCCLNET_DEVICE_UNPACK;
	device.message_max = found->message_max;
	api_out_write(out_device, &device, sizeof(device));
	return TCPX_OK;
}

static void plugin_put_setting(tcpx_plugin_setting *settings, unsigned index, size_t sz,
			       const struct gpudirect_setting *from)
{
	tcpx_plugin_setting setting = {.users = from->users};

	snprintf(setting.name, sizeof(setting.name), "%s", from->name);
	snprintf(setting.value, sizeof(setting.value), "%s", from->value);
	text_format(setting.why, sizeof(setting.why), "%s", from->why);
	api_out_element(settings, index, sz, &setting, sizeof(setting));
}

tcpx_status tcpx_plugin_settings(uint64_t message_bytes, tcpx_plugin_setting *settings,
				 uint32_t max, uint32_t *out_count)
{
	struct gpudirect_setting *all;
	unsigned count = 0;
	tcpx_status status;

	API_NOT_NULL(out_count);
	API_OUT(tcpx_plugin_setting, settings, why);
	if (!max)
		return error_set(TCPX_ERR_INVALID, 0, "tcpx_plugin_settings: max is 0");
	all = calloc(GPUDIRECT_SETTINGS_MAX, sizeof(*all));
	if (!all)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for the settings of a plugin");
	status = comms_env_settings(message_bytes, all, GPUDIRECT_SETTINGS_MAX, &count);
	if (status == TCPX_OK) {
		count = count < max ? count : max;
		for (unsigned i = 0; i < count; i++)
			plugin_put_setting(settings, i, settings->sz, &all[i]);
		*out_count = count;
	}
	free(all);
	return status;
}

static void plugin_put_problem(tcpx_plugin_problem *problems, unsigned index, size_t sz,
			       const struct gpudirect_problem *from)
{
	tcpx_plugin_problem problem = {.fatal = from->fatal};

	text_format(problem.what, sizeof(problem.what), "%s", from->what);
	snprintf(problem.fix, sizeof(problem.fix), "%s", from->fix);
	api_out_element(problems, index, sz, &problem, sizeof(problem));
}

tcpx_status tcpx_plugin_problems(const char *nics, uint64_t message_bytes,
				 tcpx_plugin_problem *problems, uint32_t max, uint32_t *out_count)
{
	struct gpudirect_problem *all;
	unsigned count = 0;
	tcpx_status status;

	API_NOT_NULL(out_count);
	API_OUT(tcpx_plugin_problem, problems, fix);
	if (!max)
		return error_set(TCPX_ERR_INVALID, 0, "tcpx_plugin_problems: max is 0");
	all = calloc(GPUDIRECT_PROBLEMS_MAX, sizeof(*all));
	if (!all)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for the problems of a plugin");
	status = comms_env_problems(nics ? nics : "", message_bytes, all, GPUDIRECT_PROBLEMS_MAX,
				    &count);
	if (status == TCPX_OK) {
		count = count < max ? count : max;
		for (unsigned i = 0; i < count; i++)
			plugin_put_problem(problems, i, problems->sz, &all[i]);
		*out_count = count;
	}
	free(all);
	return status;
}
