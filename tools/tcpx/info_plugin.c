/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of an ncclNet plugin. */
#include "info_plugin.h"

#include <stdio.h>
#include <string.h>

#include <tcpx/log.h>
#include <tcpx/plugin.h>

#include "base/bytes.h"
#include "cli_json.h"
#include "cli_output.h"

#define TIMEOUT_NS 30000000000 /* some plugins look for hardware at their start */

static const struct {
	uint32_t bit;
	const char *name;
} pointers[] = {
	{TCPX_PLUGIN_HOST, "host"},
	{TCPX_PLUGIN_CUDA, "cuda"},
	{TCPX_PLUGIN_DMABUF, "dmabuf"},
};

static void print_device(uint32_t index, const tcpx_plugin_device *device)
{
	char bytes[BYTES_TEXT_MAX];

	printf("  %u %-12s %s  memory", index, device->name,
	       *device->pci_path ? device->pci_path : "on no bus");
	for (unsigned i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++)
		if (device->pointers & pointers[i].bit)
			printf(" %s", pointers[i].name);
	if (device->speed_mbps)
		printf("  %u Mbit/s", device->speed_mbps);
	printf("  messages up to %s  %u connections%s\n",
	       bytes_format(device->message_max, bytes, sizeof(bytes)), device->max_comms,
	       device->unpack ? "  unpacked by the GPU" : "");
}

static void print_plugin(const char *path, const tcpx_plugin_info *info)
{
	printf("plugin: %s\nfile: %s\nname: %s\ninterface: v%u of", path ? path : "(default)",
	       info->resolved, info->name, info->version);
	for (uint32_t v = 0; v < 32; v++)
		if (info->versions >> v & 1)
			printf(" v%u", v);
	printf("\nreceived messages: %s\ndevices: %u\n",
	       info->consumes ? "given back one by one" : "are the receiver's at once",
	       info->devices);
}

/* Prints problems of the environment of a TCPX plugin. */
static void print_environment(void)
{
	tcpx_plugin_problem problems[TCPX_PLUGIN_PROBLEMS_MAX] = {{.sz = sizeof(problems[0])}};
	uint32_t count;

	if (tcpx_plugin_problems(NULL, 0, problems, TCPX_PLUGIN_PROBLEMS_MAX, &count) != TCPX_OK) {
		printf("environment: not known: %s\n", tcpx_last_error()->what);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		printf("environment: %s%s; %s\n", problems[i].fatal ? "" : "(hint) ",
		       problems[i].what, problems[i].fix);
	if (!count)
		printf("environment: nothing wrong with it\n");
}

static void put_plugin(struct cli_json *json, const tcpx_plugin_info *info)
{
	struct cli_json *versions = cli_json_array(json, "versions");

	cli_json_text(json, "file", info->resolved);
	cli_json_text(json, "name", info->name);
	cli_json_integer(json, "interface", info->version);
	for (uint32_t v = 0; versions && v < 32; v++)
		if (info->versions >> v & 1)
			cli_json_integer(versions, NULL, v);
	cli_json_bool(json, "consumes", info->consumes);
}

static void put_device(struct cli_json *list, const tcpx_plugin_device *device)
{
	struct cli_json *o = list ? cli_json_object(list, NULL) : NULL;
	struct cli_json *memory = o ? cli_json_array(o, "memory") : NULL;

	if (!memory)
		return;
	for (unsigned i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++)
		if (device->pointers & pointers[i].bit)
			cli_json_text(memory, NULL, pointers[i].name);
	cli_json_text(o, "name", device->name);
	cli_json_text(o, "pci_path", device->pci_path);
	cli_json_integer(o, "speed_mbps", device->speed_mbps);
	cli_json_integer(o, "max_comms", device->max_comms);
	cli_json_integer(o, "message_max", (int64_t)device->message_max);
	cli_json_bool(o, "unpack", device->unpack);
}

static void put_environment(struct cli_json *list)
{
	tcpx_plugin_problem problems[TCPX_PLUGIN_PROBLEMS_MAX] = {{.sz = sizeof(problems[0])}};
	uint32_t count;

	if (!list || tcpx_plugin_problems(NULL, 0, problems, TCPX_PLUGIN_PROBLEMS_MAX, &count))
		return;
	for (uint32_t i = 0; i < count; i++) {
		struct cli_json *o = cli_json_object(list, NULL);

		cli_json_text(o, "what", problems[i].what);
		cli_json_text(o, "fix", problems[i].fix);
		cli_json_bool(o, "fatal", problems[i].fatal != 0);
	}
}

static int info_plugin_write_json(const char *to, const tcpx_plugin_info *info, const char *path)
{
	struct cli_json *json, *list;
	tcpx_plugin_device device = {.sz = sizeof(device)};
	int rc = cli_json_check(), unpack = 0;
	FILE *out;

	if (rc)
		return rc;
	out = cli_json_open(to);
	json = out ? cli_json_new() : NULL;
	if (!json)
		return CLI_FAILED;
	cli_json_integer(json, "schema", 1);
	cli_json_text(json, "tool", "info");
	put_plugin(json, info);
	list = cli_json_array(json, "devices");
	for (uint32_t i = 0; i < info->devices; i++)
		if (tcpx_plugin_device_get(path, TIMEOUT_NS, i, &device) == TCPX_OK) {
			put_device(list, &device);
			unpack |= device.unpack != 0;
		}
	if (unpack)
		put_environment(cli_json_array(json, "environment"));
	rc = cli_json_write(json, out, to) ? CLI_FAILED : CLI_OK;
	cli_json_free(json);
	return rc;
}

int info_plugin(const char *path, const char *json)
{
	tcpx_plugin_info info = {.sz = sizeof(info)};
	tcpx_plugin_device device = {.sz = sizeof(device)};
	tcpx_status status;
	int unpack = 0;

	if (!strcmp(path, "default"))
		path = NULL;
	status = tcpx_plugin_query(path, TIMEOUT_NS, &info);
	if (status != TCPX_OK)
		return cli_fail(status, "%s", tcpx_last_error()->what);
	if (json)
		return info_plugin_write_json(json, &info, path);
	print_plugin(path, &info);
	for (uint32_t i = 0; i < info.devices; i++)
		if (tcpx_plugin_device_get(path, TIMEOUT_NS, i, &device) == TCPX_OK) {
			print_device(i, &device);
			unpack |= device.unpack;
		}
	if (unpack)
		print_environment();
	return CLI_OK;
}
