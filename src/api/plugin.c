/* SPDX-License-Identifier: Apache-2.0 */
/* Doors of tcpx/plugin.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tcpx/plugin.h>

#include "base/text.h"
#include "api/checks.h"
#include "engine/comms_env.h"
#include "net/ncclnet/plugin.h"

_Static_assert(TCPX_PLUGIN_HOST == (int)NCCLNET_PTR_HOST &&
		       TCPX_PLUGIN_CUDA == (int)NCCLNET_PTR_CUDA &&
		       TCPX_PLUGIN_DMABUF == (int)NCCLNET_PTR_DMABUF,
	       "pointers are the plugin's bits");

static tcpx_status find(const char *path, int64_t timeout_ns, struct net_plugin **out_plugin)
{
	if (timeout_ns <= 0)
		return error_set(TCPX_ERR_INVALID, 0, "plugin: timeout_ns is %lld",
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
	status = find(path, timeout_ns, &plugin);
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
	status = find(path, timeout_ns, &plugin);
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

tcpx_status tcpx_plugin_setting_get(uint64_t message_bytes, uint32_t index,
				    tcpx_plugin_setting *out_setting)
{
	tcpx_plugin_setting setting = {.sz = sizeof(setting)};
	struct gpudirect_setting *all;
	unsigned count = 0;
	tcpx_status status;

	API_OUT(tcpx_plugin_setting, out_setting, why);
	all = calloc(GPUDIRECT_SETTINGS_MAX, sizeof(*all));
	if (!all)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "settings of a plugin");
	status = comms_env_settings(message_bytes, all, GPUDIRECT_SETTINGS_MAX, &count);
	if (status == TCPX_OK && index >= count)
		status = TCPX_ERR_NOT_FOUND;
	if (status == TCPX_OK) {
		snprintf(setting.name, sizeof(setting.name), "%s", all[index].name);
		snprintf(setting.value, sizeof(setting.value), "%s", all[index].value);
		text_format(setting.why, sizeof(setting.why), "%s", all[index].why);
		setting.users = all[index].users;
		api_out_write(out_setting, &setting, sizeof(setting));
	}
	free(all);
	return status;
}

tcpx_status tcpx_plugin_problem_get(const char *nics, uint64_t message_bytes, uint32_t index,
				    tcpx_plugin_problem *out_problem)
{
	tcpx_plugin_problem problem = {.sz = sizeof(problem)};
	struct gpudirect_problem *all;
	unsigned count = 0;
	tcpx_status status;

	API_OUT(tcpx_plugin_problem, out_problem, fix);
	all = calloc(GPUDIRECT_PROBLEMS_MAX, sizeof(*all));
	if (!all)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "problems of a plugin");
	status = comms_env_problems(nics ? nics : "", message_bytes, all, GPUDIRECT_PROBLEMS_MAX,
				    &count);
	if (status == TCPX_OK && index >= count)
		status = TCPX_ERR_NOT_FOUND;
	if (status == TCPX_OK) {
		text_format(problem.what, sizeof(problem.what), "%s", all[index].what);
		snprintf(problem.fix, sizeof(problem.fix), "%s", all[index].fix);
		problem.fatal = all[index].fatal;
		api_out_write(out_problem, &problem, sizeof(problem));
	}
	free(all);
	return status;
}
